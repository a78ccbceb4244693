#include "backend/kernels/row_kernel.h"

#include <algorithm>
#include <array>

#include "backend/kernels/avx512_kernels.h"
#include "backend/kernels/kernel_check.h"
#include "ggml-cpu.h"

namespace bmoe::backend {

namespace {

// Weight rows per pass: they stay in the first-level cache while the activations pass.
constexpr int64_t kRowsInCache = 16;

#if defined(BMOE_AVX512_KERNELS)
bool has_avx512() {
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vnni");
}
#endif

RowKernel choose(ggml_type type) {
    RowKernel kernel{.type = type};
#if defined(BMOE_AVX512_KERNELS)
    if (has_avx512()) {
        switch (type) {
            case GGML_TYPE_Q4_K:
                kernel.own = multiply_q4_k_avx512;
                break;
            case GGML_TYPE_Q5_K:
                kernel.own = multiply_q5_k_avx512;
                break;
            case GGML_TYPE_Q6_K:
                kernel.own = multiply_q6_k_avx512;
                break;
            case GGML_TYPE_IQ4_XS:
                kernel.own = multiply_iq4_xs_avx512;
                break;
            case GGML_TYPE_Q8_0:
                kernel.own = multiply_q8_0_avx512;
                break;
            case GGML_TYPE_MXFP4:
                kernel.own = multiply_mxfp4_avx512;
                kernel.own_multiple = 64;
                break;
            default:
                break;
        }
    }
#endif
    if (kernel.own == nullptr) {
        return kernel;
    }
    kernel.name = "avx512";
    kernel.note = difference_from_vec_dot(kernel);
    if (!kernel.note.empty()) {
        kernel.own = nullptr;
        kernel.name = "ggml";
    }
    return kernel;
}

}  // namespace

void multiply_with_vec_dot(ggml_type weights, const RowProduct &p) {
    const auto vec_dot = ggml_get_type_traits_cpu(weights)->vec_dot;
    for (int64_t begin = 0; begin < p.n_rows; begin += kRowsInCache) {
        const int64_t end = std::min(begin + kRowsInCache, p.n_rows);
        for (int64_t t = 0; t < p.n_x; ++t) {
            for (int64_t r = begin; r < end; ++r) {
                vec_dot(static_cast<int>(p.n), p.out[t] + r, 0, p.weights + static_cast<size_t>(r) * p.weight_stride, 0,
                        p.x[t], 0, 1);
            }
        }
    }
}

void RowKernel::multiply(const RowProduct &product) const {
    if (own != nullptr && product.n % own_multiple == 0) {
        own(product);
    } else {
        multiply_with_vec_dot(type, product);
    }
}

const RowKernel &row_kernel(ggml_type weights) {
    static const auto kernels = [] {
        ggml_cpu_init();  // tables of vec_dot
        std::array<RowKernel, GGML_TYPE_COUNT> all;
        for (size_t type = 0; type < all.size(); ++type) {
            all[type] = choose(static_cast<ggml_type>(type));
        }
        return all;
    }();
    return kernels.at(static_cast<size_t>(weights));
}

}  // namespace bmoe::backend
