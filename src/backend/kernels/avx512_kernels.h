// Row kernels for processors with AVX-512 F, BW, VL, DQ and VNNI.
#pragma once

#include "backend/kernels/row_product.h"

namespace bmoe::backend {

// n a multiple of 256, x in Q8_K.
void multiply_q4_k_avx512(const RowProduct &product);
void multiply_q5_k_avx512(const RowProduct &product);
void multiply_q6_k_avx512(const RowProduct &product);
void multiply_iq4_xs_avx512(const RowProduct &product);

// n a multiple of 32, for MXFP4 of 64; x in Q8_0.
void multiply_q8_0_avx512(const RowProduct &product);
void multiply_mxfp4_avx512(const RowProduct &product);

}  // namespace bmoe::backend
