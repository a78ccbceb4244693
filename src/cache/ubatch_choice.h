// How many prompt tokens are computed at once, if the caller leaves it open: what the memory plan bears.
//
// A prompt reads its experts once per ubatch, so larger ones read less; but each of their tokens takes memory from the cache,
// and what the cache loses is missed by every token after the prompt. Computing 512 tokens usually takes longer than reading
// all experts: more gain little.
#pragma once

#include <cstdint>
#include <functional>

#include "cache/memory_plan.h"

namespace bmoe::cache {

constexpr uint32_t kUsualUbatch = 512;  // llama.cpp's
constexpr uint32_t kSmallestUbatch = 64;
constexpr uint32_t kLargestUbatch = 2048;

struct UbatchChoice {
    uint32_t n_ubatch = kUsualUbatch;
    MemoryPlan plan;
};

// kUsualUbatch; fewer where the plan would not fit; up to kLargestUbatch, but not more than `n_ctx` tokens (0: any number),
// where doubling takes at most a hundredth of the slots.
//
// `plan_of` makes the plan for a ubatch; `limit` is the memory there is, in bytes. With `fixed_slots` a larger ubatch takes
// other memory than the slots, which is held against them all the same. A plan without slots that were not fixed is one in
// which no cache fits.
UbatchChoice choose_ubatch(const std::function<MemoryPlan(uint32_t)> &plan_of, uint64_t limit, uint32_t n_ctx,
                           bool fixed_slots);

}  // namespace bmoe::cache
