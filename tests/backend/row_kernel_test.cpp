// The row kernels give the bits of ggml's vec_dot, and read nothing outside the rows.
#include "backend/kernels/row_kernel.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <span>
#include <vector>

#include "backend/kernels/kernel_check.h"
#include "ggml-cpu.h"

namespace bmoe::backend {
namespace {

// Memory whose last byte is followed by a page that must not be read.
class GuardedMemory {
  public:
    explicit GuardedMemory(size_t size) : size_(size) {
        const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
        mapped_ = (size + page - 1) / page * page + page;
        void *memory = mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        EXPECT_NE(memory, MAP_FAILED);
        start_ = static_cast<std::byte *>(memory);
        EXPECT_EQ(mprotect(start_ + mapped_ - page, page, PROT_NONE), 0);
        data_ = start_ + mapped_ - page - size;
    }
    ~GuardedMemory() { munmap(start_, mapped_); }
    GuardedMemory(const GuardedMemory &) = delete;
    GuardedMemory &operator=(const GuardedMemory &) = delete;

    std::byte *data() const { return data_; }
    std::span<std::byte> bytes() const { return {data_, size_}; }

  private:
    std::byte *start_ = nullptr;
    std::byte *data_ = nullptr;
    size_t mapped_ = 0;
    size_t size_ = 0;
};

constexpr int64_t kMaxInputs = 9;

void expect_bits_of_vec_dot(const RowKernel &kernel, int64_t n, int64_t n_rows, int64_t n_x, std::mt19937 &random) {
    SCOPED_TRACE(testing::Message() << ggml_type_name(kernel.type) << ", n " << n << ", " << n_rows << " rows, " << n_x
                                    << " inputs");
    const ggml_type x_type = ggml_get_type_traits_cpu(kernel.type)->vec_dot_type;
    const size_t weight_stride = ggml_row_size(kernel.type, n);
    const size_t x_stride = ggml_row_size(x_type, n);
    const GuardedMemory weights(weight_stride * static_cast<size_t>(n_rows));
    const GuardedMemory x(x_stride * static_cast<size_t>(n_x));
    fill_random_blocks(kernel.type, weights.bytes(), random);
    fill_random_blocks(x_type, x.bytes(), random);

    // One more float per row shows writes past its end.
    const auto out_stride = static_cast<size_t>(n_rows) + 1;
    std::vector<float> out(out_stride * static_cast<size_t>(n_x), -1.0f);
    std::vector<float> expected = out;
    std::vector<const std::byte *> inputs;
    std::vector<float *> out_rows;
    for (size_t t = 0; t < static_cast<size_t>(n_x); ++t) {
        inputs.push_back(x.data() + t * x_stride);
        out_rows.push_back(out.data() + t * out_stride);
        for (size_t r = 0; r < static_cast<size_t>(n_rows); ++r) {
            ggml_get_type_traits_cpu(kernel.type)
                ->vec_dot(static_cast<int>(n), &expected[t * out_stride + r], 0, weights.data() + r * weight_stride, 0,
                          inputs.back(), 0, 1);
        }
    }
    kernel.multiply({.n = n,
                     .weights = weights.data(),
                     .weight_stride = weight_stride,
                     .n_rows = n_rows,
                     .x = inputs.data(),
                     .n_x = n_x,
                     .out = out_rows.data()});
    EXPECT_EQ(std::memcmp(out.data(), expected.data(), out.size() * sizeof(float)), 0);
}

std::vector<RowKernel> own_kernels() {
    std::vector<RowKernel> kernels;
    for (int type = 0; type < GGML_TYPE_COUNT; ++type) {
        const RowKernel &kernel = row_kernel(static_cast<ggml_type>(type));
        if (kernel.own != nullptr) kernels.push_back(kernel);
    }
    return kernels;
}

TEST(RowKernel, EveryShapeHasTheBitsOfVecDot) {
    const std::vector<RowKernel> kernels = own_kernels();
    if (kernels.empty()) GTEST_SKIP() << "no kernels for this processor";
    std::mt19937 random(2);
    for (const RowKernel &kernel : kernels) {
        for (int64_t n_rows = 1; n_rows <= 33; ++n_rows) {
            for (int64_t n_x = 1; n_x <= kMaxInputs; ++n_x) {
                expect_bits_of_vec_dot(kernel, 256, n_rows, n_x, random);
            }
        }
    }
}

TEST(RowKernel, EveryLengthHasTheBitsOfVecDot) {
    const std::vector<RowKernel> kernels = own_kernels();
    if (kernels.empty()) GTEST_SKIP() << "no kernels for this processor";
    std::mt19937 random(3);
    for (const RowKernel &kernel : kernels) {
        for (const int64_t n : {512, 768, 2048, 4096}) {
            for (const int64_t n_rows : {1, 6, 33}) {
                for (const int64_t n_x : {1, 4, 7}) {
                    expect_bits_of_vec_dot(kernel, n, n_rows, n_x, random);
                }
            }
        }
    }
}

TEST(RowKernel, BlocksThatDoNotFillAPassAreLeftToVecDot) {
    std::mt19937 random(4);
    for (const ggml_type type : {GGML_TYPE_Q8_0, GGML_TYPE_MXFP4}) {
        for (const int64_t n : {32, 96, 736}) {
            expect_bits_of_vec_dot(row_kernel(type), n, 5, 3, random);
        }
    }
}

TEST(RowKernel, NothingIsRefusedHere) {
    for (int type = 0; type < GGML_TYPE_COUNT; ++type) {
        EXPECT_EQ(row_kernel(static_cast<ggml_type>(type)).note, "");
    }
}

TEST(RowKernel, AKernelWithOtherBitsIsFound) {
    RowKernel kernel = row_kernel(GGML_TYPE_Q4_K);
    kernel.name = "wrong";
    kernel.own = [](const RowProduct &product) {
        multiply_with_vec_dot(GGML_TYPE_Q4_K, product);
        product.out[0][0] += 1.0f;
    };
    EXPECT_NE(difference_from_vec_dot(kernel), "");
    kernel.own = [](const RowProduct &product) { multiply_with_vec_dot(GGML_TYPE_Q4_K, product); };
    EXPECT_EQ(difference_from_vec_dot(kernel), "");
}

}  // namespace
}  // namespace bmoe::backend
