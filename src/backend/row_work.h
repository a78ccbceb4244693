// What a compute thread does with the rows of a layer's products: it takes ranges of them as their slices arrive.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "backend/expert_store.h"
#include "backend/layer_visit.h"
#include "backend/row_ranges.h"
#include "base/clock.h"
#include "ggml.h"

namespace bmoe::backend {

// True if nothing more will arrive for this slice. It may have failed.
inline bool has_arrived(const cache::Slice &slice) {
    const auto state = slice.state.load(std::memory_order_acquire);
    return state == cache::SliceState::kReady || state == cache::SliceState::kFailed;
}

// Makes the rows of `product` 0 that no expert computes. What was there may be no number, which a weight of 0 does not undo.
inline void clear_dropped_rows(const ggml_tensor &product, const LayerVisit &visit) {
    for (const RoutedRow row : visit.dropped_rows()) {
        std::memset(static_cast<char *>(product.data) + row.rank * product.nb[1] + row.token * product.nb[2], 0,
                    ggml_row_size(product.type, product.ne[0]));
    }
}

// Called by every thread of a team; returns when nothing is left to take. Calls `compute(item, range)` for ranges of items for
// which `is_ready(item)`; when there is none, sleeps until the store's visit announces an arrival. `compute` finishes its range.
template <typename IsReady, typename Compute>
void work_as_slices_arrive(RowRanges &ranges, ExpertStore &store, int thread, const IsReady &is_ready,
                           const Compute &compute) {
    LayerVisit &visit = store.visit();
    size_t first = 0;  // items before it are taken whole
    uint64_t compute_ns = 0;
    while (ranges.any_left()) {
        const uint32_t seen = visit.arrivals().load(std::memory_order_acquire);
        const uint64_t begin = now_ns();
        bool worked = false;
        while (first < ranges.items() && !ranges.any_left(first)) {
            ++first;
        }
        for (size_t item = first; item < ranges.items(); ++item) {
            if (!ranges.any_left(item) || !is_ready(item)) {
                continue;
            }
            RowRange range;
            while (ranges.take(item, range)) {
                if (range.is_last) {
                    visit.wake();  // others may sleep although nothing is left to wait for
                }
                compute(item, range);
                worked = true;
            }
        }
        if (worked) {
            compute_ns += now_ns() - begin;
        }
        if (worked || !ranges.any_left()) {
            continue;
        }
        const uint64_t start = now_ns();
        visit.arrivals().wait(seen, std::memory_order_acquire);
        if (thread == 0) {
            store.add_stall(now_ns() - start);
        }
    }
    store.add_compute(compute_ns);
}

}  // namespace bmoe::backend
