// What the thread that reads requests hands to the thread that works on them: one at a time.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <variant>

#include "cli/session/request.h"

namespace bmoe::cli {

// Why a session ends.
enum class Ending { kClosed, kEndOfInput, kInterrupted, kInputFailed };

using Job = std::variant<GenerateRequest, ResetRequest>;

// Thread-safe.
class Inbox {
  public:
    // `cancel` ends the work on a job, or lets it end as soon as it begins; `forget_cancel` takes that back. Neither is called
    // while no job is under way, nor from two threads at once.
    Inbox(std::function<void()> cancel, std::function<void()> forget_cancel)
        : cancel_(std::move(cancel)), forget_cancel_(std::move(forget_cancel)) {}

    // --- for the thread that reads ---
    bool start(Job job);  // false: another is under way
    // False if the job of this id, or without one any job, is not under way.
    bool cancel(const std::optional<std::string> &id);
    // Cancels what is under way. Nothing may be started afterwards; the first call counts.
    void end(Ending ending);

    // --- for the thread that works ---
    std::optional<Job> next();  // waits for a job that was started; empty: the session ends
    void finished();            // the job is done with: another may be started
    std::optional<Ending> ending() const;

  private:
    std::function<void()> cancel_;
    std::function<void()> forget_cancel_;
    mutable std::mutex mutex_;
    std::condition_variable changed_;
    std::optional<Job> waiting_;
    std::optional<std::string> id_;  // of the job that is under way
    bool under_way_ = false;
    std::optional<Ending> ending_;
};

}  // namespace bmoe::cli
