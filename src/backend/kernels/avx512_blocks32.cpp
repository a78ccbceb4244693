// Q8_0 and MXFP4 by Q8_0: blocks of 32 elements with a float scale.
//
// As in avx512_k_quants.cpp, the lower half of a register holds the eight lanes of one weight row and the upper half those of
// another. Lane l sums elements 4l to 4l + 3 of a block and adds them by one fused multiplication. For MXFP4 ggml sums even and
// odd blocks apart.
#include "backend/kernels/avx512_kernels.h"
#include "backend/kernels/avx512_rows.h"

namespace bmoe::backend {

namespace {

using namespace avx512;

constexpr int kElements = 32;
constexpr size_t kActivationBytes = 34;  // half d, int8 q[32]

// A pair of rows, unpacked.
struct Pair {
    __m512i size;  // unsigned bytes
    __mmask64 negative;
};

// Block: half d, int8 q[32].
struct Q80 {
    static constexpr size_t kBytes = 34;
    static constexpr int kSums = 1;

    static __m512 d(const std::byte *lower, const std::byte *upper) { return two_halves(lower, upper); }
    static Pair unpack(const std::byte *lower, const std::byte *upper) {
        const __m512i q = two_rows(lower + 2, upper + 2);
        return {_mm512_abs_epi8(q), _mm512_movepi8_mask(q)};
    }
};

// Block: exponent, 4-bit q[32]: an index each.
struct Mxfp4 {
    static constexpr size_t kBytes = 17;
    static constexpr int kSums = 2;

    // Half of two to the power of the exponent, as the values below are doubled.
    static __m512 d(const std::byte *lower, const std::byte *upper) {
        const __m512i exponent = _mm512_inserti64x4(_mm512_set1_epi32(static_cast<int>(*lower)),
                                                    _mm256_set1_epi32(static_cast<int>(*upper)), 1);
        const __m512i normal = _mm512_slli_epi32(_mm512_sub_epi32(exponent, _mm512_set1_epi32(1)), 23);
        const __mmask16 is_denormal = _mm512_cmplt_epi32_mask(exponent, _mm512_set1_epi32(2));
        return _mm512_castsi512_ps(
            _mm512_mask_sllv_epi32(normal, is_denormal, _mm512_set1_epi32(0x00200000), exponent));
    }
    static Pair unpack(const std::byte *lower, const std::byte *upper) {
        const __m512i index = two_rows_of_nibbles(lower + 1, upper + 1);
        const __m512i sizes = _mm512_broadcast_i32x4(_mm_setr_epi8(0, 1, 2, 3, 4, 6, 8, 12, 0, 1, 2, 3, 4, 6, 8, 12));
        return {_mm512_shuffle_epi8(sizes, index), _mm512_test_epi8_mask(index, _mm512_set1_epi8(8))};
    }
};

template <class Format>
struct Kernel {
    static constexpr int kMostTokens = 4;

    template <int kTokens>
    static void multiply(const RowProduct &p, const RowNumbers &numbers, int64_t token) {
        RowPointers rows = numbers.pointers(p);
        __m512 lanes[2][kTokens][Format::kSums];
        for (int t = 0; t < kTokens; ++t) {
            for (int s = 0; s < Format::kSums; ++s) {
                lanes[0][t][s] = lanes[1][t][s] = _mm512_setzero_ps();
            }
        }
        for (int64_t b = 0; b < p.n / kElements; b += Format::kSums) {
#pragma GCC unroll 2
            for (int s = 0; s < Format::kSums; ++s) {
                rows.fetch_ahead(Format::kBytes);
                const std::byte *y[kTokens];
                __m512 y_d[kTokens];
#pragma GCC unroll 4
                for (int t = 0; t < kTokens; ++t) {
                    y[t] = p.x[token + t] + static_cast<size_t>(b + s) * kActivationBytes;
                    y_d[t] = _mm512_cvtph_ps(_mm256_broadcastw_epi16(_mm_loadu_si16(y[t])));
                }
#pragma GCC unroll 2
                for (int pair = 0; pair < 2; ++pair) {
                    const std::byte *lower = rows.row[2 * pair];
                    const std::byte *upper = rows.row[2 * pair + 1];
                    const Pair weights = Format::unpack(lower, upper);
                    const __m512 d = Format::d(lower, upper);
#pragma GCC unroll 4
                    for (int t = 0; t < kTokens; ++t) {
                        const __m512i q = twice(y[t] + 2);
                        const __m512i with_sign = _mm512_mask_sub_epi8(q, weights.negative, _mm512_setzero_si512(), q);
                        const __m512i sums = _mm512_dpbusd_epi32(_mm512_setzero_si512(), weights.size, with_sign);
                        lanes[pair][t][s] =
                            _mm512_fmadd_ps(_mm512_mul_ps(d, y_d[t]), _mm512_cvtepi32_ps(sums), lanes[pair][t][s]);
                    }
                }
                rows.move(Format::kBytes);
            }
        }
        for (int t = 0; t < kTokens; ++t) {
            if constexpr (Format::kSums == 2) {
                lanes[0][t][0] = _mm512_add_ps(lanes[0][t][0], lanes[0][t][1]);
                lanes[1][t][0] = _mm512_add_ps(lanes[1][t][0], lanes[1][t][1]);
            }
            store(sum_lanes(lanes[0][t][0], lanes[1][t][0]), numbers, p.out[token + t]);
        }
    }
};

}  // namespace

void multiply_q8_0_avx512(const RowProduct &product) { avx512::multiply<Kernel<Q80>>(product); }
void multiply_mxfp4_avx512(const RowProduct &product) { avx512::multiply<Kernel<Mxfp4>>(product); }

}  // namespace bmoe::backend
