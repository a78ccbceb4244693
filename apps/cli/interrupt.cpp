#include "cli/interrupt.h"

#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdint>

namespace bmoe::cli {

namespace {

std::atomic<int> caught{0};
std::atomic<int> count{0};
std::atomic<int> most{1};  // that are taken
std::atomic<engine::Engine *> running{nullptr};
std::atomic<int> waiting{-1};  // eventfd

void on_signal(int signal) {
    caught = signal;
    if (engine::Engine *engine = running.load(std::memory_order_relaxed)) {
        engine->cancel();
    }
    if (const int event = waiting.load(std::memory_order_relaxed); event >= 0) {
        const int error = errno;
        const uint64_t one = 1;
        [[maybe_unused]] const ssize_t written = write(event, &one, sizeof(one));
        errno = error;
    }
    if (++count >= most.load(std::memory_order_relaxed)) {
        std::signal(signal, SIG_DFL);
    }
}

}  // namespace

struct InterruptScope::Old {
    struct sigaction interrupt, terminate, hang_up, pipe;
};

InterruptScope::InterruptScope(engine::Engine &engine, int event, Second second) : old_(std::make_unique<Old>()) {
    caught = 0;
    count = 0;
    most = second == Second::kIsTaken ? 2 : 1;
    waiting.store(event, std::memory_order_relaxed);
    running.store(&engine, std::memory_order_relaxed);
    struct sigaction action = {};
    action.sa_handler = on_signal;
    action.sa_flags = SA_RESTART;  // what is being written is not lost
    sigaction(SIGINT, &action, &old_->interrupt);
    sigaction(SIGTERM, &action, &old_->terminate);
    sigaction(SIGHUP, nullptr, &old_->hang_up);
    if (old_->hang_up.sa_handler != SIG_IGN) {  // nohup wants it to live on
        sigaction(SIGHUP, &action, nullptr);
    }
    action.sa_handler = SIG_IGN;
    sigaction(SIGPIPE, &action, &old_->pipe);
}

InterruptScope::~InterruptScope() {
    if (!ignoring_) {
        sigaction(SIGINT, &old_->interrupt, nullptr);
        sigaction(SIGTERM, &old_->terminate, nullptr);
        sigaction(SIGHUP, &old_->hang_up, nullptr);
    }
    sigaction(SIGPIPE, &old_->pipe, nullptr);
    running.store(nullptr, std::memory_order_relaxed);
    waiting.store(-1, std::memory_order_relaxed);
}

bool InterruptScope::interrupted() const { return caught != 0; }

bool InterruptScope::again() const { return count > 1; }

int InterruptScope::exit_status() const { return caught != 0 ? 128 + caught : 0; }

void InterruptScope::ignore_from_now_on() {
    ignoring_ = true;
    std::signal(SIGINT, SIG_IGN);
    std::signal(SIGTERM, SIG_IGN);
    std::signal(SIGHUP, SIG_IGN);
}

}  // namespace bmoe::cli
