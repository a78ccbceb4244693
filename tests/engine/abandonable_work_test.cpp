#include "engine/abandonable_work.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <stdexcept>
#include <string>
#include <thread>

namespace bmoe::engine {
namespace {

bool never() { return false; }
bool at_once() { return true; }

// Work that lasts until it is let go.
class Held {
  public:
    std::function<int()> work() {
        return [this] {
            ++started_;
            gate_.wait();
            return ++ended_;
        };
    }
    void let_go() { opener_.set_value(); }
    int started() const { return started_; }
    int ended() const { return ended_; }

  private:
    std::promise<void> opener_;
    std::shared_future<void> gate_ = opener_.get_future().share();
    std::atomic<int> started_{0};
    std::atomic<int> ended_{0};
};

TEST(AbandonableWork, GivesWhatTheWorkReturnsOrThrows) {
    AbandonableWork<std::string> work;
    const auto other_thread = [caller = std::this_thread::get_id()] {
        return std::string(std::this_thread::get_id() == caller ? "here" : "elsewhere");
    };
    EXPECT_EQ(work.run(other_thread, never), "elsewhere");
    EXPECT_THROW(work.run([]() -> std::string { throw std::runtime_error("no"); }, never), std::runtime_error);
    EXPECT_EQ(work.run([] { return std::string("again"); }, never), "again");
    EXPECT_EQ(work.run([] { return std::string("done sooner than asked"); }, never), "done sooner than asked");
}

TEST(AbandonableWork, IsGivenUpAtOnceAndWaitedForByTheNext) {
    Held held;
    AbandonableWork<int> work;
    EXPECT_EQ(work.run(held.work(), at_once), std::nullopt);
    EXPECT_EQ(held.ended(), 0);
    // The next one can be given up while it waits for that; it then never begins.
    EXPECT_EQ(work.run([]() -> int { throw std::runtime_error("begun"); }, at_once), std::nullopt);
    EXPECT_EQ(held.ended(), 0);
    int asked = 0;
    const auto go_on = [&] {
        if (++asked == 2) {
            held.let_go();
        }
        return false;
    };
    EXPECT_EQ(work.run([&] { return 10 * held.ended(); }, go_on), 10);
    EXPECT_EQ(held.started(), 1);
}

TEST(AbandonableWork, WhatWasGivenUpMayFail) {
    std::promise<void> opener;
    const std::shared_future<void> gate = opener.get_future().share();
    AbandonableWork<int> work;
    const auto failing = [gate]() -> int {
        gate.wait();
        throw std::runtime_error("nobody wants to know");
    };
    EXPECT_EQ(work.run(failing, at_once), std::nullopt);
    opener.set_value();
    EXPECT_EQ(work.run([] { return 1; }, never), 1);
}

TEST(AbandonableWork, WaitsWhenToldToAndInTheEnd) {
    for (const bool told : {true, false}) {
        Held held;
        std::thread opener;
        {
            AbandonableWork<int> work;
            work.finish();  // nothing was given up
            EXPECT_EQ(work.run(held.work(), at_once), std::nullopt);
            opener = std::thread([&] { held.let_go(); });
            if (told) {
                work.finish();
                EXPECT_EQ(held.ended(), 1);
            }
        }
        EXPECT_EQ(held.ended(), 1);
        opener.join();
    }
}

}  // namespace
}  // namespace bmoe::engine
