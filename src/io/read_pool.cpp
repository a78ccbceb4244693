#include "io/read_pool.h"

#include "base/error.h"
#include "io/pool_impl.h"

namespace bmoe::io {
namespace {

constexpr int kMaxLanes = 64;

std::unique_ptr<ReadPool::Impl> make_pool(int lanes, ReadEngine engine, std::string &note) {
    if (lanes < 1 || lanes > kMaxLanes) {
        throw Error(cat("read lanes: ", lanes, " asked for; give a number from 1 to ", kMaxLanes));
    }
    if (engine == ReadEngine::kLanes) return make_lane_pool(lanes);
    try {
        return make_uring_pool(lanes);
    } catch (const Error &error) {
        if (engine == ReadEngine::kUring) throw Error(cat(error.what(), "; use --io-engine lanes"));
        note = cat(error.what(), "; reading by threads instead");
        return make_lane_pool(lanes);
    }
}

}  // namespace

ReadPool::ReadPool(int lanes, ReadEngine engine) : impl_(make_pool(lanes, engine, note_)) {}
ReadPool::~ReadPool() = default;

int ReadPool::lanes() const { return impl_->lanes(); }
const std::string &ReadPool::note() const { return note_; }
ReadEngine ReadPool::engine() const { return impl_->engine(); }
void ReadPool::submit(std::span<ReadJob *const> jobs, Priority priority) { impl_->submit(jobs, priority); }
bool ReadPool::cancel(ReadJob &job) { return impl_->cancel(job); }
bool ReadPool::promote(ReadJob &job) { return impl_->promote(job); }
void ReadPool::drain() { impl_->drain(); }
ReadCounters ReadPool::counters() const { return impl_->counters(); }

void ReadPool::set_observer(ReadObserver *observer) { impl_->set_observer(observer); }

}  // namespace bmoe::io
