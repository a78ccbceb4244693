// The engine of threads that read.
#include <algorithm>
#include <system_error>
#include <thread>
#include <vector>

#include "base/error.h"
#include "io/guarded_read.h"
#include "io/pool_impl.h"
#include "io/prompt_thread.h"

namespace bmoe::io {
namespace {

class LanePool final : public ReadPool::Impl {
  public:
    explicit LanePool(int lanes) : Impl(lanes, ReadEngine::kLanes) {
        threads_.reserve(static_cast<size_t>(lanes));
        try {
            for (int lane = 0; lane < lanes; ++lane) threads_.emplace_back([this] { run(); });
        } catch (const std::system_error &error) {
            stop();
            throw Error(cat("read lanes: the system gives only ", threads_.size(), " of ", lanes, " threads (",
                            error.code().message(), "); use fewer lanes"));
        }
    }
    ~LanePool() override { stop(); }

  private:
    void wake(Lock &lock, size_t jobs) override {
        const size_t lanes = std::min(jobs, sleeping_);
        lock.unlock();
        for (size_t lane = 0; lane < lanes; ++lane) work_.notify_one();
    }

    void stop() {
        {
            const Lock lock(mutex_);
            stopping_ = true;
        }
        work_.notify_all();
        for (std::thread &thread : threads_) thread.join();
    }

    // The body of a lane.
    void run() {
        prefer_promptness();
        Lock lock(mutex_);
        for (;;) {
            if (!has_work()) {
                if (stopping_) return;
                ++sleeping_;
                work_.wait(lock, [this] { return stopping_ || has_work(); });
                --sleeping_;
                continue;
            }
            const Taken taken = take();
            const ReadJob &job = *taken.job;
            ReadStatus status;
            if (stopping_) {
                status = refusal(job);
            } else {
                begin_read();
                lock.unlock();
                status = guarded_read(*job.file, job.offset, job.length, job.dst);
                lock.lock();
                end_read(taken, status);
            }
            finish(lock, taken, status);
        }
    }

    std::condition_variable work_;
    size_t sleeping_ = 0;  // lanes in `work_`
    std::vector<std::thread> threads_;
};

}  // namespace

std::unique_ptr<ReadPool::Impl> make_lane_pool(int lanes) { return std::make_unique<LanePool>(lanes); }

}  // namespace bmoe::io
