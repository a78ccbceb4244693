#include "cli/session/inbox.h"

namespace bmoe::cli {

bool Inbox::start(Job job) {
    const std::scoped_lock lock(mutex_);
    if (under_way_) {
        return false;
    }
    under_way_ = true;
    id_ = std::visit([](const auto &request) { return std::optional<std::string>(request.id); }, job);
    waiting_ = std::move(job);
    changed_.notify_one();
    return true;
}

bool Inbox::cancel(const std::optional<std::string> &id) {
    const std::scoped_lock lock(mutex_);
    if (!under_way_ || (id && id != id_)) {
        return false;
    }
    cancel_();
    return true;
}

void Inbox::end(Ending ending) {
    const std::scoped_lock lock(mutex_);
    if (ending_) {
        return;
    }
    ending_ = ending;
    if (under_way_) {
        cancel_();
    }
    changed_.notify_one();
}

std::optional<Job> Inbox::next() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return waiting_ || ending_; });
    std::optional<Job> job;
    job.swap(waiting_);
    return job;
}

void Inbox::finished() {
    const std::scoped_lock lock(mutex_);
    under_way_ = false;
    id_.reset();
    forget_cancel_();
}

std::optional<Ending> Inbox::ending() const {
    const std::scoped_lock lock(mutex_);
    return ending_;
}

}  // namespace bmoe::cli
