#include "backend/kernels/kernel_check.h"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <vector>

#include "backend/kernels/row_kernel.h"
#include "base/error.h"
#include "ggml-cpu.h"

namespace bmoe::backend {

namespace {

uint16_t random_half(std::mt19937 &random) {
    const auto bits = static_cast<uint16_t>(random());
    constexpr uint16_t kExponent = 0x7c00;
    switch (random() % 16) {
        case 0:
            return 0;
        case 1:
            return bits & static_cast<uint16_t>(~kExponent);  // denormal
        case 2:
            return static_cast<uint16_t>((bits & 0x8000) | 0x7bff);  // largest
        default:
            // Infinities and what is not a number have all bits of the exponent.
            return (bits & kExponent) == kExponent ? bits & static_cast<uint16_t>(~0x4000) : bits;
    }
}

float random_float(std::mt19937 &random) {
    const float mantissa = static_cast<float>(static_cast<int32_t>(random())) * 0x1p-31f;
    switch (random() % 16) {
        case 0:
            return 0.0f;
        case 1:
            return std::ldexp(mantissa, -130);  // denormal
        case 2:
            return std::ldexp(mantissa, 60);
        default:
            return std::ldexp(mantissa, -static_cast<int>(random() % 30));
    }
}

// Byte offsets of the half scales in a block.
std::initializer_list<size_t> half_scales(ggml_type type) {
    static constexpr std::initializer_list<size_t> kFirst = {0};
    static constexpr std::initializer_list<size_t> kFirstTwo = {0, 2};
    static constexpr std::initializer_list<size_t> kLastOfQ6K = {208};
    static constexpr std::initializer_list<size_t> kNone = {};
    switch (type) {
        case GGML_TYPE_Q4_K:
        case GGML_TYPE_Q5_K:
            return kFirstTwo;
        case GGML_TYPE_Q6_K:
            return kLastOfQ6K;
        case GGML_TYPE_Q8_0:
        case GGML_TYPE_IQ4_XS:
            return kFirst;
        default:
            return kNone;
    }
}

}  // namespace

void fill_random_blocks(ggml_type type, std::span<std::byte> blocks, std::mt19937 &random) {
    for (std::byte &byte : blocks) {
        byte = static_cast<std::byte>(random());
    }
    const size_t block_bytes = ggml_type_size(type);
    for (size_t at = 0; at + block_bytes <= blocks.size(); at += block_bytes) {
        for (const size_t offset : half_scales(type)) {
            const uint16_t scale = random_half(random);
            std::memcpy(&blocks[at + offset], &scale, sizeof(scale));
        }
        if (type == GGML_TYPE_Q8_K) {
            const float scale = random_float(random);
            std::memcpy(&blocks[at], &scale, sizeof(scale));
        }
    }
}

std::string difference_from_vec_dot(const RowKernel &kernel) {
    constexpr int64_t kRows = 7;
    constexpr int64_t kInputs = 13;  // several of every number that kernels take at once
    constexpr int kRounds = 3;
    const ggml_type x_type = ggml_get_type_traits_cpu(kernel.type)->vec_dot_type;
    std::mt19937 random(1);
    for (int round = 0; round < kRounds; ++round) {
        for (const int64_t n : {256, 768, 2048}) {
            const size_t weight_stride = ggml_row_size(kernel.type, n);
            const size_t x_stride = ggml_row_size(x_type, n);
            std::vector<std::byte> weights(weight_stride * kRows);
            std::vector<std::byte> x(x_stride * kInputs);
            fill_random_blocks(kernel.type, weights, random);
            fill_random_blocks(x_type, x, random);
            std::vector<float> own(kRows * kInputs);
            std::vector<float> ggml(kRows * kInputs);
            const std::byte *inputs[kInputs];
            float *own_rows[kInputs];
            float *ggml_rows[kInputs];
            for (size_t t = 0; t < kInputs; ++t) {
                inputs[t] = x.data() + t * x_stride;
                own_rows[t] = own.data() + t * kRows;
                ggml_rows[t] = ggml.data() + t * kRows;
            }
            RowProduct product{n, weights.data(), weight_stride, kRows, inputs, kInputs, own_rows};
            kernel.own(product);
            product.out = ggml_rows;
            multiply_with_vec_dot(kernel.type, product);
            if (std::memcmp(own.data(), ggml.data(), own.size() * sizeof(float)) != 0) {
                return cat("kernel ", kernel.name, " for ", ggml_type_name(kernel.type),
                           " does not give the bits of this build of ggml, whose own is used instead");
            }
        }
    }
    return {};
}

}  // namespace bmoe::backend
