// Fills free slots of the cache with the experts that were used most in earlier runs, while nothing else needs the lanes.
#pragma once

#include <cstdint>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "cache/expert_cache.h"
#include "gguf/model_file.h"
#include "io/read_pool.h"

namespace bmoe::backend {

struct WarmReport {
    uint64_t experts = 0;  // that became resident
    uint64_t bytes = 0;    // of these
    uint64_t failed = 0;   // slices that could not be read
    std::string error;     // the first of them: a sentence
};

// One thread makes it and finishes it. From its construction to finish(), nothing else may use the cache, nor submit to the
// pool anything that does not end by itself.
class CacheWarmer {
  public:
    // Takes free slots for experts, those of the largest `frequencies` first (layer after layer; those of 0 are left out),
    // and queues their reads at low priority. `model`, `cache` and `pool` must outlive it.
    CacheWarmer(const gguf::ModelFile &model, cache::ExpertCache &cache, io::ReadPool &pool,
                std::span<const float> frequencies);
    ~CacheWarmer();
    CacheWarmer(const CacheWarmer &) = delete;
    CacheWarmer &operator=(const CacheWarmer &) = delete;

    // Drops the reads that no lane has started, waits for the others, and makes the experts that were read whole resident;
    // the slots of the rest are free again. Once.
    WarmReport finish();

  private:
    struct SliceRead {
        io::ReadJob job;
        CacheWarmer *warmer = nullptr;
        cache::Slice *slice = nullptr;
        cache::ExpertId id;
        size_t bank = 0;
    };

    void plan_reads();
    static void on_read(io::ReadJob &job, const io::ReadStatus &status);

    const gguf::ModelFile &model_;
    cache::ExpertCache &cache_;
    io::ReadPool &pool_;
    std::vector<cache::Slot *> slots_;
    std::vector<SliceRead> reads_;  // slot after slot
    bool finished_ = false;

    std::mutex mutex_;  // guards the two below: lanes write them
    uint64_t failed_ = 0;
    std::string error_;
};

}  // namespace bmoe::backend
