// What a product by experts costs: weight rows by one, few and many activation rows, with ggml's vec_dot and with the row
// kernels. Read the bytes of weights per second, of all threads. `L2` multiplies the same 256 KiB again and again, `memory`
// goes through 1 GiB in huge pages.
#include <benchmark/benchmark.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "backend/kernels/kernel_check.h"
#include "backend/kernels/row_kernel.h"
#include "ggml-cpu.h"

namespace {

using namespace bmoe::backend;

constexpr size_t kMemory = size_t{1} << 30;
constexpr size_t kCached = size_t{256} << 10;
constexpr size_t kHugePage = size_t{2} << 20;
constexpr int64_t kElements = 2048;
constexpr int64_t kRowsAtOnce = 96;  // as a thread takes them

// Shared by all benchmarks, which fill the part they use.
std::byte *memory() {
    static std::byte *const start = [] {
        void *mapped = mmap(nullptr, kMemory + kHugePage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (mapped == MAP_FAILED) std::abort();
        const auto address = (reinterpret_cast<uintptr_t>(mapped) + kHugePage - 1) / kHugePage * kHugePage;
        auto *aligned = reinterpret_cast<std::byte *>(address);
        madvise(aligned, kMemory, MADV_HUGEPAGE);
        return aligned;
    }();
    return start;
}

void fill(ggml_type type, size_t bytes) {
    static ggml_type filled = GGML_TYPE_COUNT;
    static size_t filled_bytes = 0;
    if (filled == type && filled_bytes >= bytes) return;
    std::mt19937 random(1);
    const size_t row = ggml_row_size(type, kElements);
    std::vector<std::byte> rows(row * kRowsAtOnce);
    fill_random_blocks(type, rows, random);
    for (size_t at = 0; at < bytes; at += rows.size()) {
        std::copy_n(rows.begin(), std::min(rows.size(), bytes - at), memory() + at);
    }
    filled = type;
    filled_bytes = bytes;
}

void multiply(benchmark::State &state, ggml_type type, bool own, int64_t n_x, bool cached) {
    const size_t row = ggml_row_size(type, kElements);
    const auto n_threads = static_cast<size_t>(state.threads());
    const auto thread = static_cast<size_t>(state.thread_index());
    const size_t share = cached ? kCached : kMemory / n_threads;
    if (thread == 0) fill(type, cached ? kCached * n_threads : kMemory);
    const RowKernel &kernel = row_kernel(type);

    const ggml_type x_type = ggml_get_type_traits_cpu(type)->vec_dot_type;
    const size_t x_row = ggml_row_size(x_type, kElements);
    std::mt19937 random(2);
    std::vector<std::byte> x(x_row * static_cast<size_t>(n_x));
    fill_random_blocks(x_type, x, random);
    std::vector<float> out(static_cast<size_t>(n_x * kRowsAtOnce));
    std::vector<const std::byte *> inputs;
    std::vector<float *> outputs;
    for (int64_t t = 0; t < n_x; ++t) {
        inputs.push_back(x.data() + static_cast<size_t>(t) * x_row);
        outputs.push_back(out.data() + t * kRowsAtOnce);
    }

    const auto rows = static_cast<int64_t>(share / row);
    const std::byte *weights = nullptr;
    int64_t next = 0;
    int64_t multiplied = 0;
    for (auto _ : state) {
        // After the barrier of the first iteration, when thread 0 has filled the memory.
        weights = memory() + thread * share;
        const int64_t count = std::min(kRowsAtOnce, rows - next);
        const RowProduct product{
            kElements, weights + static_cast<size_t>(next) * row, row, count, inputs.data(), n_x, outputs.data()};
        if (own) {
            kernel.multiply(product);
        } else {
            multiply_with_vec_dot(type, product);
        }
        benchmark::ClobberMemory();
        multiplied += count;
        next = next + count < rows ? next + count : 0;
    }
    state.SetBytesProcessed(multiplied * static_cast<int64_t>(row));
}

void add(ggml_type type, bool own, int64_t n_x, bool cached) {
    const std::string name = std::string(ggml_type_name(type)) + (own ? "/own" : "/vec_dot") + "/x" +
                             std::to_string(n_x) + (cached ? "/L2" : "/memory");
    auto *bench = benchmark::RegisterBenchmark(
        name.c_str(), [=](benchmark::State &state) { multiply(state, type, own, n_x, cached); });
    bench->ThreadRange(1, 2)->UseRealTime();
}

const bool kRegistered = [] {
    for (int type = 0; type < GGML_TYPE_COUNT; ++type) {
        const auto weights = static_cast<ggml_type>(type);
        if (row_kernel(weights).own == nullptr) continue;
        for (const bool own : {false, true}) {
            add(weights, own, 1, true);
            add(weights, own, 1, false);
            add(weights, own, 4, true);
            add(weights, own, 32, true);
        }
    }
    return true;
}();

}  // namespace
