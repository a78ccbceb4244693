// Q4_K, Q5_K, Q6_K and IQ4_XS by Q8_K: blocks of 256 elements with integer scales for 32 or 16 of them.
//
// ggml keeps eight float lanes per dot product. Lane l sums elements 4l to 4l + 3 of every 32, exactly in integers within a
// block, then adds the block by one fused multiplication. Here the lower half of a register holds the lanes of one weight row
// and the upper half those of the next; four rows share the loads and conversions of scales and activations.
//
#include "backend/kernels/avx512_kernels.h"
#include "backend/kernels/avx512_rows.h"

namespace bmoe::backend {

namespace {

using namespace avx512;

constexpr int kElements = 256;
constexpr int kGroups = 8;  // of 32 elements

// A block of activations: float d, int8 q[256], int16 sums[16] of 16 elements each.
struct Activations {
    static constexpr size_t kBytes = 292;
    const std::byte *block;

    float d() const { return _mm_cvtss_f32(_mm_load_ss(reinterpret_cast<const float *>(block))); }
    __m512i group(int g) const { return twice(block + 4 + 32 * g); }
    __m256i sums() const { return load32(block + 260); }
};

// 16 bytes of each row in a quarter of the register.
__m512i four_rows(const RowPointers &rows, size_t offset) {
    const __m256i lower =
        _mm256_inserti128_si256(_mm256_castsi128_si256(load16(rows.row[0] + offset)), load16(rows.row[1] + offset), 1);
    const __m256i upper =
        _mm256_inserti128_si256(_mm256_castsi128_si256(load16(rows.row[2] + offset)), load16(rows.row[3] + offset), 1);
    return _mm512_inserti64x4(_mm512_castsi256_si512(lower), upper, 1);
}

// Sixteen floats from the 16-bit words of `words` that `index` names.
__m512 half_floats(__m512i index, __m512i words) {
    return _mm512_cvtph_ps(_mm512_castsi512_si256(_mm512_permutexvar_epi16(index, words)));
}

// Repeats each of the words `first` and `second` eight times.
__m512i word_indices(short first, short second) {
    return _mm512_inserti64x4(_mm512_castsi256_si512(_mm256_set_m128i(_mm_set1_epi16(second), _mm_set1_epi16(first))),
                              _mm256_setzero_si256(), 1);
}

// Indices for a byte shuffle within quarters: byte g as a 16-bit word, everywhere.
__m512i byte_as_word(int g) { return _mm512_set1_epi16(static_cast<short>(0x8000 | g)); }

// A pair of rows, unpacked.
struct Pair {
    __m512i q[kGroups];           // unsigned bytes
    __m512i scale[kGroups];       // 16-bit words
    __mmask64 negative[kGroups];  // of Format::kSigned: the bytes of q that stand for negative values
};

// The integer sums of a block's eight lanes, for both rows.
template <bool kSigned>
__m512i lane_sums(const Pair &pair, Activations y) {
    __m512i sums[2] = {_mm512_setzero_si512(), _mm512_setzero_si512()};
#pragma GCC unroll 8
    for (int g = 0; g < kGroups; ++g) {
        __m512i group = y.group(g);
        if constexpr (kSigned) {
            group = _mm512_mask_sub_epi8(group, pair.negative[g], _mm512_setzero_si512(), group);
        }
        sums[g % 2] = _mm512_dpwssd_epi32(sums[g % 2], _mm512_maddubs_epi16(pair.q[g], group), pair.scale[g]);
    }
    return _mm512_add_epi32(sums[0], sums[1]);
}

// Block: half d, half min, 12 bytes of 6-bit scales and minimums, 4-bit q[256].
struct Q4K {
    static constexpr size_t kBytes = 144;
    static constexpr bool kSigned = false;

    // Scales and minimums of four rows.
    explicit Q4K(const RowPointers &rows) : rows_(rows), words_(four_rows(rows, 0)) {
        // Of the bytes a[4], b[4], c[4]: scales are a's low six bits, then c's low four with a's high two above them;
        // minimums are b's low six, then c's high four with b's high two above.
        const __m512i low_bytes =
            _mm512_broadcast_i32x4(_mm_setr_epi8(4, 5, 6, 7, 12, 13, 14, 15, 8, 9, 10, 11, 12, 13, 14, 15));
        const __m512i high_bytes =
            _mm512_broadcast_i32x4(_mm_setr_epi8(4, 5, 6, 7, 4, 5, 6, 7, 8, 9, 10, 11, 8, 9, 10, 11));
        const __m512i low = _mm512_srlv_epi32(_mm512_shuffle_epi8(words_, low_bytes),
                                              _mm512_broadcast_i32x4(_mm_setr_epi32(0, 0, 0, 4)));
        const __m512i high = _mm512_srlv_epi32(_mm512_shuffle_epi8(words_, high_bytes), _mm512_set1_epi32(2));
        const __m512i low_mask = _mm512_broadcast_i32x4(_mm_setr_epi32(0x3f3f3f3f, 0x0f0f0f0f, 0x3f3f3f3f, 0x0f0f0f0f));
        const __m512i high_mask = _mm512_broadcast_i32x4(_mm_setr_epi32(0, 0x30303030, 0, 0x30303030));
        scales_ = _mm512_or_si512(_mm512_and_si512(low, low_mask), _mm512_and_si512(high, high_mask));
    }

    __m512 d(int pair) const { return half_floats(pair == 0 ? word_indices(0, 8) : word_indices(16, 24), words_); }

    Pair unpack(int pair) const { return unpack_nibbles(rows_.row[2 * pair] + 16, rows_.row[2 * pair + 1] + 16, pair); }

    Pair unpack_nibbles(const std::byte *lower, const std::byte *upper, int pair) const {
        Pair out;
        const __m512i scales =
            pair == 0 ? _mm512_shuffle_i32x4(scales_, scales_, 0x50) : _mm512_shuffle_i32x4(scales_, scales_, 0xfa);
        const __m512i nibble = _mm512_set1_epi8(15);
#pragma GCC unroll 4
        for (int g = 0; g < kGroups; g += 2) {
            const __m512i both = two_rows(lower + 16 * g, upper + 16 * g);
            out.q[g] = _mm512_and_si512(both, nibble);
            out.q[g + 1] = _mm512_and_si512(_mm512_srli_epi16(both, 4), nibble);
            out.scale[g] = _mm512_shuffle_epi8(scales, byte_as_word(g));
            out.scale[g + 1] = _mm512_shuffle_epi8(scales, byte_as_word(g + 1));
        }
        return out;
    }

    __m512i correct(int, __m512i sums, Activations) const { return sums; }

    // The minimums' part: four lanes per row.
    __m512 add_minimums(Activations y, __m512 to) const {
        return _mm512_fmadd_ps(minimum_scale(y), _mm512_cvtepi32_ps(minimum_products(y)), to);
    }

    // The last additions: within each quarter, `lanes` has what is left of the eight lanes in element 0.
    static __m512 finish(__m512 lanes, __m512 minimums) {
        const __m512 half = _mm512_add_ps(minimums, _mm512_permute_ps(minimums, 0xee));
        return _mm512_add_ps(lanes, _mm512_add_ps(half, _mm512_permute_ps(half, 0xf5)));
    }

  protected:
    __m512 minimum_scale(Activations y) const {
        const __m512i word_of_row =
            _mm512_castsi256_si512(_mm256_setr_epi16(1, 1, 1, 1, 9, 9, 9, 9, 17, 17, 17, 17, 25, 25, 25, 25));
        return _mm512_mul_ps(_mm512_set1_ps(-y.d()), half_floats(word_of_row, words_));
    }

    __m512i minimum_products(Activations y) const {
        const __m512i minimums = _mm512_unpackhi_epi8(scales_, _mm512_setzero_si512());
        const __m256i sums16 = y.sums();
        const __m128i sums = _mm_hadd_epi16(_mm256_castsi256_si128(sums16), _mm256_extracti128_si256(sums16, 1));
        return _mm512_madd_epi16(minimums, _mm512_broadcast_i32x4(sums));
    }

    RowPointers rows_;
    __m512i words_;   // a quarter per row: the first 16 bytes of the block
    __m512i scales_;  // a quarter per row: eight scales, eight minimums
};

// Block: half d, half min, 12 bytes of 6-bit scales and minimums, highest bits of 32 bytes, 4-bit q[256].
struct Q5K : Q4K {
    static constexpr size_t kBytes = 176;

    explicit Q5K(const RowPointers &rows) : Q4K(rows) {}

    Pair unpack(int pair) const {
        const std::byte *lower = rows_.row[2 * pair] + 16;
        const std::byte *upper = rows_.row[2 * pair + 1] + 16;
        const __m512i high = two_rows(lower, upper);  // bit g of byte i belongs to element i of group g
        Pair out = unpack_nibbles(lower + 32, upper + 32, pair);
#pragma GCC unroll 8
        for (int g = 0; g < kGroups; ++g) {
            const __m512i moved = g < 4 ? _mm512_sllv_epi16(high, _mm512_set1_epi16(static_cast<short>(4 - g)))
                                        : _mm512_srlv_epi16(high, _mm512_set1_epi16(static_cast<short>(g - 4)));
            // q | (moved & 16)
            out.q[g] = _mm512_ternarylogic_epi64(out.q[g], moved, _mm512_set1_epi8(16), 0xf8);
        }
        return out;
    }

    // One number per row, in all four lanes.
    __m512 add_minimums(Activations y, __m512 to) const {
        const __m512i four = minimum_products(y);
        const __m512i two = _mm512_add_epi32(four, _mm512_shuffle_epi32(four, _MM_PERM_BADC));
        const __m512i one = _mm512_add_epi32(two, _mm512_shuffle_epi32(two, _MM_PERM_CDAB));
        return _mm512_fmadd_ps(minimum_scale(y), _mm512_cvtepi32_ps(one), to);
    }

    static __m512 finish(__m512 lanes, __m512 minimums) { return _mm512_add_ps(lanes, minimums); }
};

// Block: 4-bit low[256], 2-bit high[256], int8 scales[16] for 16 elements each, half d.
struct Q6K {
    static constexpr size_t kBytes = 210;
    static constexpr bool kSigned = false;

    explicit Q6K(const RowPointers &rows) : rows_(rows) {}

    __m512 d(int pair) const { return two_halves(rows_.row[2 * pair] + 208, rows_.row[2 * pair + 1] + 208); }

    Pair unpack(int pair) const {
        Pair out;
        const std::byte *lower = rows_.row[2 * pair];
        const std::byte *upper = rows_.row[2 * pair + 1];
        // In each half: the even scales, as words, for the first quarter and the odd ones for the second.
        const __m512i even_odd = _mm512_setr_epi32(
            0x00020000, 0x00060004, 0x000a0008, 0x000e000c, 0x00030001, 0x00070005, 0x000b0009, 0x000f000d, 0x00120010,
            0x00160014, 0x001a0018, 0x001e001c, 0x00130011, 0x00170015, 0x001b0019, 0x001f001d);
        const __m512i scales = _mm512_permutexvar_epi16(even_odd, words(pair));
        const __m512i nibble = _mm512_set1_epi8(15);
        const __m512i six_bits = _mm512_set1_epi8(63);
#pragma GCC unroll 2
        for (int half = 0; half < 2; ++half) {
            const __m512i low0 = two_rows(lower + 64 * half, upper + 64 * half);
            const __m512i low1 = two_rows(lower + 64 * half + 32, upper + 64 * half + 32);
            const __m512i high = two_rows(lower + 128 + 32 * half, upper + 128 + 32 * half);
            __m512i *q = out.q + 4 * half;
            q[0] = join(nibble, low0, _mm512_slli_epi16(high, 4), six_bits);
            q[1] = join(nibble, low1, _mm512_slli_epi16(high, 2), six_bits);
            q[2] = join(nibble, _mm512_srli_epi16(low0, 4), high, six_bits);
            q[3] = join(nibble, _mm512_srli_epi16(low1, 4), _mm512_srli_epi16(high, 2), six_bits);
        }
#pragma GCC unroll 8
        for (int g = 0; g < kGroups; ++g) {
            out.scale[g] = _mm512_shuffle_epi8(scales, _mm512_set1_epi16(static_cast<short>((2 * g + 1) << 8 | 2 * g)));
        }
        return out;
    }

    // The elements are stored with 32 added to them.
    __m512i correct(int pair, __m512i sums, Activations y) const {
        const __m512i products = _mm512_madd_epi16(_mm512_broadcast_i64x4(y.sums()), words(pair));
        return _mm512_sub_epi32(sums, _mm512_slli_epi32(products, 5));
    }

    __m512 add_minimums(Activations, __m512 to) const { return to; }
    static __m512 finish(__m512 lanes, __m512) { return lanes; }

  private:
    // The scales of both rows as words.
    __m512i words(int pair) const {
        return _mm512_cvtepi8_epi16(
            _mm256_set_m128i(load16(rows_.row[2 * pair + 1] + 192), load16(rows_.row[2 * pair] + 192)));
    }

    // Bits of `low` where `mask` has them and of `high` elsewhere, of those the ones in `bits`.
    static __m512i join(__m512i mask, __m512i low, __m512i high, __m512i bits) {
        return _mm512_and_si512(_mm512_ternarylogic_epi64(mask, low, high, 0xca), bits);
    }

    RowPointers rows_;
};

// Block: half d, 2 high bits of eight scales, 4 low bits of them, 4-bit q[256]: an index each.
struct Iq4Xs {
    static constexpr size_t kBytes = 136;
    static constexpr bool kSigned = true;

    explicit Iq4Xs(const RowPointers &rows) : rows_(rows) {}

    __m512 d(int pair) const { return two_halves(rows_.row[2 * pair], rows_.row[2 * pair + 1]); }

    Pair unpack(int pair) const {
        Pair out;
        const std::byte *lower = rows_.row[2 * pair];
        const std::byte *upper = rows_.row[2 * pair + 1];
        const __m512i scales = scale_words(lower, upper);
        const __m512i sizes =
            _mm512_broadcast_i32x4(_mm_setr_epi8(127, 104, 83, 65, 49, 35, 22, 10, 1, 13, 25, 38, 53, 69, 89, 113));
#pragma GCC unroll 8
        for (int g = 0; g < kGroups; ++g) {
            const __m512i index = two_rows_of_nibbles(lower + 8 + 16 * g, upper + 8 + 16 * g);
            out.q[g] = _mm512_shuffle_epi8(sizes, index);
            out.negative[g] = _mm512_testn_epi8_mask(index, _mm512_set1_epi8(8));  // the first eight
            out.scale[g] =
                _mm512_permutexvar_epi32(_mm512_inserti64x4(_mm512_set1_epi32(g), _mm256_set1_epi32(8 + g), 1), scales);
        }
        return out;
    }

    __m512i correct(int, __m512i sums, Activations) const { return sums; }
    __m512 add_minimums(Activations, __m512 to) const { return to; }
    static __m512 finish(__m512 lanes, __m512) { return lanes; }

  private:
    // Eight scales for each row, each twice, as words.
    static __m512i scale_words(const std::byte *lower, const std::byte *upper) {
        const __m512i header = _mm512_inserti64x4(_mm512_castsi256_si512(_mm256_broadcastq_epi64(load8(lower))),
                                                  _mm256_broadcastq_epi64(load8(upper)), 1);
        const __m512i high =
            _mm512_srlv_epi32(_mm512_shuffle_epi32(header, _MM_PERM_AAAA),
                              _mm512_broadcast_i64x4(_mm256_setr_epi32(16, 18, 20, 22, 24, 26, 28, 30)));
        const __m512i low = _mm512_srlv_epi32(_mm512_shuffle_epi32(header, _MM_PERM_BBBB),
                                              _mm512_broadcast_i64x4(_mm256_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28)));
        const __m512i six_bits = _mm512_or_si512(_mm512_and_si512(low, _mm512_set1_epi32(15)),
                                                 _mm512_slli_epi32(_mm512_and_si512(high, _mm512_set1_epi32(3)), 4));
        return _mm512_sub_epi16(_mm512_or_si512(six_bits, _mm512_slli_epi32(six_bits, 16)), _mm512_set1_epi16(32));
    }
    static __m128i load8(const std::byte *from) { return _mm_loadl_epi64(reinterpret_cast<const __m128i *>(from)); }

    RowPointers rows_;
};

template <class Format>
struct Kernel {
    static constexpr int kMostTokens = 6;

    template <int kTokens>
    static void multiply(const RowProduct &p, const RowNumbers &numbers, int64_t token) {
        RowPointers rows = numbers.pointers(p);
        __m512 lanes[2][kTokens];
        __m512 minimums[kTokens];
        for (int t = 0; t < kTokens; ++t) {
            lanes[0][t] = lanes[1][t] = minimums[t] = _mm512_setzero_ps();
        }
        for (int64_t b = 0; b < p.n / kElements; ++b) {
            const auto activations = [&](int t) {
                return Activations{p.x[token + t] + static_cast<size_t>(b) * Activations::kBytes};
            };
            rows.fetch_ahead(Format::kBytes);
            const Format block(rows);
#pragma GCC unroll 2
            for (int pair = 0; pair < 2; ++pair) {
                const Pair weights = block.unpack(pair);
                const __m512 d = block.d(pair);
#pragma GCC unroll 4
                for (int t = 0; t < kTokens; ++t) {
                    const Activations y = activations(t);
                    const __m512i sums = block.correct(pair, lane_sums<Format::kSigned>(weights, y), y);
                    lanes[pair][t] = _mm512_fmadd_ps(_mm512_mul_ps(_mm512_set1_ps(y.d()), d), _mm512_cvtepi32_ps(sums),
                                                     lanes[pair][t]);
                }
            }
#pragma GCC unroll 4
            for (int t = 0; t < kTokens; ++t) {
                minimums[t] = block.add_minimums(activations(t), minimums[t]);
            }
            rows.move(Format::kBytes);
        }
        for (int t = 0; t < kTokens; ++t) {
            store(Format::finish(sum_lanes(lanes[0][t], lanes[1][t]), minimums[t]), numbers, p.out[token + t]);
        }
    }
};

}  // namespace

void multiply_q4_k_avx512(const RowProduct &product) { avx512::multiply<Kernel<Q4K>>(product); }
void multiply_q5_k_avx512(const RowProduct &product) { avx512::multiply<Kernel<Q5K>>(product); }
void multiply_q6_k_avx512(const RowProduct &product) { avx512::multiply<Kernel<Q6K>>(product); }
void multiply_iq4_xs_avx512(const RowProduct &product) { avx512::multiply<Kernel<Iq4Xs>>(product); }

}  // namespace bmoe::backend
