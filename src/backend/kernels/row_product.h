// Weight rows by activation rows: the arguments of a row kernel.
#pragma once

#include <cstddef>
#include <cstdint>

namespace bmoe::backend {

// out[t][r] = dot(weight row r, x[t]). Nothing outside the rows is read. Rows need the alignment of their scales only.
struct RowProduct {
    int64_t n = 0;                       // elements of a row, whole blocks
    const std::byte *weights = nullptr;  // row r at weights + r * weight_stride
    size_t weight_stride = 0;            // bytes
    int64_t n_rows = 0;
    const std::byte *const *x = nullptr;  // n_x rows in the vec_dot type of the weights
    int64_t n_x = 0;
    float *const *out = nullptr;  // n_x rows
};

}  // namespace bmoe::backend
