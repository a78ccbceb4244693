// What the AVX-512 kernels share: four weight rows at once, two in each register.
//
// Only for files that are compiled for AVX-512. Includes nothing that might bring inline functions of others along, which the
// linker could then give to code that runs on any processor; for the same reason all here is static or a template.
#pragma once

// gcc 12's own header sets these off.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <immintrin.h>

#include "backend/kernels/row_product.h"

namespace bmoe::backend::avx512 {

constexpr int kRows = 4;              // weight rows at once
constexpr size_t kBytesAhead = 2048;  // how far ahead of use weights are fetched
constexpr int64_t kRowsInCache = 16;  // weight rows that stay in the first-level cache while the activations pass

struct RowPointers {
    const std::byte *row[kRows];

    void move(size_t bytes) {
        for (const std::byte *&one : row) {
            one += bytes;
        }
    }

    // Of a block that will be used later.
    void fetch_ahead(size_t block_bytes) const {
        for (const std::byte *one : row) {
            for (size_t at = 0; at < block_bytes; at += 64) {
                _mm_prefetch(one + kBytesAhead + at, _MM_HINT_T0);
            }
        }
    }
};

// Which weight rows are multiplied at once. A number may occur several times, which fills the four at the end.
struct RowNumbers {
    int64_t row[kRows];

    RowPointers pointers(const RowProduct &p) const {
        RowPointers out;
        for (int i = 0; i < kRows; ++i) {
            out.row[i] = p.weights + static_cast<size_t>(row[i]) * p.weight_stride;
        }
        return out;
    }
};

static inline __m128i load16(const std::byte *from) { return _mm_loadu_si128(reinterpret_cast<const __m128i *>(from)); }
static inline __m256i load32(const std::byte *from) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i *>(from));
}

// 32 bytes in both halves.
static inline __m512i twice(const std::byte *from) { return _mm512_broadcast_i64x4(load32(from)); }

static inline __m512i two_rows(const std::byte *lower, const std::byte *upper) {
    return _mm512_inserti64x4(_mm512_castsi256_si512(load32(lower)), load32(upper), 1);
}

// A half of each row, eight times.
static inline __m512 two_halves(const std::byte *lower, const std::byte *upper) {
    return _mm512_cvtph_ps(
        _mm256_set_m128i(_mm_broadcastw_epi16(_mm_loadu_si16(upper)), _mm_broadcastw_epi16(_mm_loadu_si16(lower))));
}

// The indices of 4-bit values of two rows: of 16 bytes, the low halves for elements 0 to 15 and the high ones for 16 to 31.
static inline __m512i two_rows_of_nibbles(const std::byte *lower, const std::byte *upper) {
    const __m512i bytes = _mm512_mask_broadcast_i32x4(_mm512_broadcast_i32x4(load16(lower)), 0xff00, load16(upper));
    const __m512i moved = _mm512_srlv_epi64(bytes, _mm512_setr_epi64(0, 0, 4, 4, 0, 0, 4, 4));
    return _mm512_and_si512(moved, _mm512_set1_epi8(15));
}

// The sum of each row's eight lanes, in ggml's order: upper and lower four, then pairs, then the last two. Row i's sum is in the
// first element of quarter i.
static inline __m512 sum_lanes(__m512 rows01, __m512 rows23) {
    const __m512 four =
        _mm512_add_ps(_mm512_shuffle_f32x4(rows01, rows23, 0xdd), _mm512_shuffle_f32x4(rows01, rows23, 0x88));
    const __m512 two = _mm512_add_ps(four, _mm512_permute_ps(four, 0xee));
    return _mm512_add_ps(two, _mm512_permute_ps(two, 0xf5));
}

// Stores the first element of each quarter.
static inline void store(__m512 sums, const RowNumbers &numbers, float *out) {
    const __m512 packed = _mm512_permutexvar_ps(_mm512_castsi128_si512(_mm_setr_epi32(0, 4, 8, 12)), sums);
    float of_row[kRows];
    _mm_storeu_ps(of_row, _mm512_castps512_ps128(packed));
    for (int i = 0; i < kRows; ++i) {
        out[numbers.row[i]] = of_row[i];
    }
}

// Weight rows `begin` to `end` of each quarter by kTokens activation rows.
template <class Kernel, int kTokens>
void multiply_tokens(const RowProduct &p, int64_t quarter, int64_t begin, int64_t end, int64_t token) {
    for (int64_t r = begin; r < end; ++r) {
        RowNumbers numbers;
        for (int i = 0; i < kRows; ++i) {
            const int64_t row = r + i * quarter;
            numbers.row[i] = row < p.n_rows ? row : p.n_rows - 1;
        }
        Kernel::template multiply<kTokens>(p, numbers, token);
    }
}

// The four rows at once are from the four quarters of all: each quarter is then read from its beginning to its end, which the
// processor's prefetching follows better than neighbouring rows side by side.
//
// Kernel::multiply<kTokens>(product, numbers, token) multiplies four weight rows by kTokens activation rows from `token` on. With
// Kernel::kMostTokens, 4 to 7, it is fastest.
template <class Kernel>
void multiply(const RowProduct &p) {
    const int64_t quarter = (p.n_rows + kRows - 1) / kRows;
    for (int64_t begin = 0; begin < quarter; begin += kRowsInCache / kRows) {
        const int64_t end = begin + kRowsInCache / kRows < quarter ? begin + kRowsInCache / kRows : quarter;
        int64_t t = 0;
        for (; t + Kernel::kMostTokens <= p.n_x; t += Kernel::kMostTokens) {
            multiply_tokens<Kernel, Kernel::kMostTokens>(p, quarter, begin, end, t);
        }
        if (Kernel::kMostTokens > 4 && t + 4 <= p.n_x) {
            multiply_tokens<Kernel, 4>(p, quarter, begin, end, t);
            t += 4;
        }
        if (t + 2 <= p.n_x) {
            multiply_tokens<Kernel, 2>(p, quarter, begin, end, t);
            t += 2;
        }
        if (t < p.n_x) {
            multiply_tokens<Kernel, 1>(p, quarter, begin, end, t);
        }
    }
}

}  // namespace bmoe::backend::avx512
