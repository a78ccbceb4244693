// Work that takes long and cannot be stopped, of which a caller can still be rid at once.
#pragma once

#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <utility>

#include "engine/deep_thread.h"

namespace bmoe::engine {

// Not thread-safe. What is given up goes on to its end, to no purpose; the next work and the destructor wait for that, so what
// it uses must outlive this.
template <typename Result>
class AbandonableWork {
  public:
    // What `work` returns, or throws, in a thread of its own. Nothing as soon as `given_up`, which is asked every few
    // milliseconds, returns true. Throws std::system_error if there can be no such thread.
    std::optional<Result> run(std::function<Result()> work, const std::function<bool()> &given_up) {
        if (!is_done(given_up)) {
            return std::nullopt;
        }
        finish();
        auto task = std::make_shared<std::packaged_task<Result()>>(std::move(work));
        std::future<Result> result = task->get_future();
        thread_.emplace([task = std::move(task)] { (*task)(); });
        result_ = std::move(result);
        if (!is_done(given_up)) {
            return std::nullopt;
        }
        thread_.reset();
        return result_.get();
    }

    // Waits for what was given up.
    void finish() {
        thread_.reset();
        result_ = {};
    }

  private:
    static constexpr std::chrono::milliseconds kPatience{5};  // a signal handler can wake nobody

    bool is_done(const std::function<bool()> &given_up) const {
        while (thread_ && result_.wait_for(kPatience) != std::future_status::ready) {
            if (given_up()) {
                return false;
            }
        }
        return true;
    }

    std::future<Result> result_;
    std::optional<DeepThread> thread_;
};

}  // namespace bmoe::engine
