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

InterruptScope::InterruptScope(engine::Engine &engine, int event, Second second) {
    caught = 0;
    count = 0;
    most = second == Second::kIsTaken ? 2 : 1;
    waiting.store(event, std::memory_order_relaxed);
    running.store(&engine, std::memory_order_relaxed);
    signals_.emplace(on_signal);
}

InterruptScope::~InterruptScope() {
    signals_.reset();
    running.store(nullptr, std::memory_order_relaxed);
    waiting.store(-1, std::memory_order_relaxed);
}

bool InterruptScope::interrupted() const { return caught != 0; }

bool InterruptScope::again() const { return count > 1; }

int InterruptScope::exit_status() const { return caught != 0 ? 128 + caught : 0; }

void InterruptScope::ignore_from_now_on() { signals_->ignore_from_now_on(); }

}  // namespace bmoe::cli
