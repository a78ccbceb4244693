// Once the cache has been filled and every buffer has its size, a token costs no allocation and no page fault in the backend.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>

#include "cache/slot_pool.h"
#include "ggml-cpu.h"
#include "telemetry/process_usage.h"
#include "tests/backend/small_experts.h"

namespace {

std::atomic<bool> counting{false};
std::atomic<int> allocations{0};

void *counted(std::size_t size, std::size_t alignment = alignof(std::max_align_t)) {
    if (counting.load(std::memory_order_relaxed)) {
        allocations.fetch_add(1, std::memory_order_relaxed);
    }
    if (void *memory =
            std::aligned_alloc(alignment, (std::max<std::size_t>(size, 1) + alignment - 1) / alignment * alignment)) {
        return memory;
    }
    throw std::bad_alloc();
}

}  // namespace

// gcc sees the free() that it inlines into delete, not the malloc() in new.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmismatched-new-delete"
#endif

// All threads of the program allocate here, lanes and compute threads too.
void *operator new(std::size_t size) { return counted(size); }
void *operator new[](std::size_t size) { return counted(size); }
void *operator new(std::size_t size, std::align_val_t alignment) {
    return counted(size, static_cast<std::size_t>(alignment));
}
void *operator new[](std::size_t size, std::align_val_t alignment) {
    return counted(size, static_cast<std::size_t>(alignment));
}
void operator delete(void *memory) noexcept { std::free(memory); }
void operator delete[](void *memory) noexcept { std::free(memory); }
void operator delete(void *memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void *memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void *memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void *memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void *memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void *memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }

namespace bmoe::backend::test {
namespace {

class SteadyState : public testing::TestWithParam<bool> {};

TEST_P(SteadyState, NeitherAllocatesNorFaults) {
    Shape shape;
    shape.n_expert = 16;
    SmallExperts experts(shape, {.io_threads = 2});
    const uint64_t budget = GetParam() ? cache::SlotPool::minimum_budget(experts.store().geometry()) * 2 : 0;
    experts.store().set_cache(budget, cache::PolicyKind::kReap);
    ggml_threadpool_params params = ggml_threadpool_params_default(2);
    ggml_threadpool *pool = ggml_threadpool_new(&params);
    SplitExecutor executor;
    executor.set_threadpool(pool);
    executor.set_threads(2);
    std::mt19937 random(17);
    for (uint32_t i = 0; i < 180; ++i) {
        experts.visit(executor, i % shape.n_layers, 1, random);
    }

    telemetry::ProcessUsage begin;
    int64_t faults = 0;
    experts.before_compute = [&] {
        begin = telemetry::ProcessUsage::now();
        counting = true;
    };
    experts.after_compute = [&] {
        counting = false;
        const telemetry::ProcessUsage used = telemetry::ProcessUsage::now().since(begin);
        faults += used.minor_faults + used.major_faults;
    };
    const StoreCounters before = experts.store().counters();
    for (uint32_t i = 0; i < 90; ++i) {
        experts.visit(executor, i % shape.n_layers, 1, random);
    }
    executor.set_threadpool(nullptr);
    ggml_threadpool_free(pool);
    EXPECT_GT(experts.store().counters().since(before).reads.reads, 90U) << "nothing was read: the test tests nothing";
    EXPECT_EQ(allocations.load(), 0);
    EXPECT_EQ(faults, 0);
}

INSTANTIATE_TEST_SUITE_P(CachedAndNot, SteadyState, testing::Bool());

}  // namespace
}  // namespace bmoe::backend::test
