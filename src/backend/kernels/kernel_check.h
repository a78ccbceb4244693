// Whether a row kernel gives the bits of ggml's vec_dot.
#pragma once

#include <cstddef>
#include <random>
#include <span>
#include <string>

#include "ggml.h"

namespace bmoe::backend {

struct RowKernel;

// Fills whole blocks with random bytes, but for the scales: finite, zeros, denormals and the largest ones among them.
// For types that a kernel of bmoe's own multiplies, and their vec_dot types.
void fill_random_blocks(ggml_type type, std::span<std::byte> blocks, std::mt19937 &random);

// Compares own with vec_dot on some thousand random blocks: empty if all bits are the same, otherwise one sentence.
std::string difference_from_vec_dot(const RowKernel &kernel);

}  // namespace bmoe::backend
