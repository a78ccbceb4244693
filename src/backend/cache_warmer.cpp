#include "backend/cache_warmer.h"

#include <algorithm>
#include <cassert>

#include "backend/slice_read.h"

namespace bmoe::backend {

namespace {

struct Candidate {
    float frequency = 0;
    cache::ExpertId id;
};

// All experts that were used, the most used first, equal ones in the order of the model.
std::vector<Candidate> by_frequency(const gguf::ModelFile &model, std::span<const float> frequencies) {
    std::vector<Candidate> candidates;
    size_t at = 0;
    for (size_t layer = 0; layer < model.expert_layers().size(); ++layer) {
        for (uint32_t expert = 0; expert < model.expert_layers()[layer].n_expert; ++expert, ++at) {
            if (frequencies[at] > 0) {
                candidates.push_back({frequencies[at], {static_cast<uint16_t>(layer), static_cast<uint16_t>(expert)}});
            }
        }
    }
    assert(at == frequencies.size());
    std::stable_sort(candidates.begin(), candidates.end(),
                     [](const Candidate &a, const Candidate &b) { return a.frequency > b.frequency; });
    return candidates;
}

}  // namespace

CacheWarmer::CacheWarmer(const gguf::ModelFile &model, cache::ExpertCache &cache, io::ReadPool &pool,
                         std::span<const float> frequencies)
    : model_(model), cache_(cache), pool_(pool) {
    for (const Candidate &candidate : by_frequency(model, frequencies)) {
        // Where the slots of one size are used up, those of another may not be.
        if (cache::Slot *slot = cache.reserve(candidate.id); slot != nullptr) {
            slots_.push_back(slot);
        }
    }
    plan_reads();
    std::vector<io::ReadJob *> jobs;
    jobs.reserve(reads_.size());
    for (SliceRead &read : reads_) {
        jobs.push_back(&read.job);
    }
    pool_.submit(jobs, io::Priority::kSpeculative);
}

CacheWarmer::~CacheWarmer() {
    if (!finished_) {
        finish();
    }
}

void CacheWarmer::plan_reads() {
    size_t n_reads = 0;
    for (const cache::Slot *slot : slots_) {
        n_reads += slot->slices.size();
    }
    reads_.resize(n_reads);  // jobs are linked by address
    size_t next = 0;
    for (cache::Slot *slot : slots_) {
        for (size_t s = 0; s < slot->slices.size(); ++s) {
            SliceRead &read = reads_[next++];
            read.warmer = this;
            read.slice = &slot->slices[s];
            read.id = slot->id;
            read.bank = s;
            read.slice->state.store(cache::SliceState::kReading, std::memory_order_relaxed);
            read.job = slice_job(model_, slot->id, s, read.slice->room);
            read.job.done = on_read;
            read.job.user = &read;
        }
    }
}

void CacheWarmer::on_read(io::ReadJob &job, const io::ReadStatus &status) {
    auto &read = *static_cast<SliceRead *>(job.user);
    if (status.ok()) {
        publish_slice(*read.slice, job);
        return;
    }
    read.slice->state.store(cache::SliceState::kFailed, std::memory_order_release);
    CacheWarmer &warmer = *read.warmer;
    const std::scoped_lock lock(warmer.mutex_);
    if (warmer.failed_++ == 0) {
        warmer.error_ = describe_slice_error(warmer.model_, read.id, read.bank, status.error);
    }
}

WarmReport CacheWarmer::finish() {
    assert(!finished_);
    finished_ = true;
    // From the end: meanwhile lanes take from the front.
    for (auto read = reads_.rbegin(); read != reads_.rend(); ++read) {
        pool_.cancel(read->job);
    }
    pool_.drain();
    WarmReport report;
    // From the end too: the pool hands out first what came back last, and that should be low addresses.
    for (auto at = slots_.rbegin(); at != slots_.rend(); ++at) {
        cache::Slot *slot = *at;
        if (!cache::is_whole(*slot)) {
            cache_.give_back(slot);
            continue;
        }
        cache_.publish(slot);
        ++report.experts;
        report.bytes += model_.expert_layers()[slot->id.layer].bytes_per_expert();
    }
    const std::scoped_lock lock(mutex_);
    report.failed = failed_;
    report.error = error_;
    return report;
}

}  // namespace bmoe::backend
