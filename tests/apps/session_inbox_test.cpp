#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "cli/session/inbox.h"

namespace bmoe::cli {
namespace {

GenerateRequest generation(const std::string &id) {
    GenerateRequest request;
    request.id = id;
    request.prompt = "x";
    return request;
}

struct Fixture {
    std::atomic<bool> cancelled{false};
    Inbox inbox{[this] { cancelled = true; }, [this] { cancelled = false; }};
};

TEST(Inbox, HandsOverOneJobAtATime) {
    Fixture f;
    EXPECT_TRUE(f.inbox.start(generation("a")));
    EXPECT_FALSE(f.inbox.start(generation("b")));
    EXPECT_EQ(std::get<GenerateRequest>(*f.inbox.next()).id, "a");
    EXPECT_FALSE(f.inbox.start(ResetRequest{}));
    f.inbox.finished();
    EXPECT_TRUE(f.inbox.start(ResetRequest{}));
    EXPECT_TRUE(std::holds_alternative<ResetRequest>(*f.inbox.next()));
}

TEST(Inbox, CancelsOnlyWhatIsUnderWay) {
    Fixture f;
    EXPECT_FALSE(f.inbox.cancel("a"));
    EXPECT_FALSE(f.inbox.cancel({}));
    f.inbox.start(generation("a"));
    EXPECT_FALSE(f.inbox.cancel("b"));
    EXPECT_FALSE(f.cancelled);
    EXPECT_TRUE(f.inbox.cancel("a"));
    EXPECT_TRUE(f.cancelled);
    f.inbox.next();
    f.inbox.finished();
    EXPECT_FALSE(f.cancelled) << "one that comes too late must not meet the next job";
    f.inbox.start(generation("c"));
    EXPECT_TRUE(f.inbox.cancel({}));
}

TEST(Inbox, AJobThatWasTakenIsWorkedOnEvenWhenTheSessionEnds) {
    Fixture f;
    f.inbox.start(generation("a"));
    f.inbox.end(Ending::kClosed);
    f.inbox.end(Ending::kInterrupted);
    EXPECT_TRUE(f.cancelled);
    EXPECT_TRUE(f.inbox.next().has_value());
    f.inbox.finished();
    EXPECT_FALSE(f.inbox.next().has_value());
    EXPECT_EQ(f.inbox.ending(), Ending::kClosed);
}

TEST(Inbox, WakesTheThreadThatWaits) {
    Fixture f;
    int jobs = 0;
    std::thread worker([&] {
        while (f.inbox.next()) {
            ++jobs;
            f.inbox.finished();
        }
    });
    for (int i = 0; i < 100; ++i) {
        while (!f.inbox.start(generation(std::to_string(i)))) {
            f.inbox.cancel({});
            std::this_thread::yield();
        }
    }
    while (!f.inbox.start(ResetRequest{})) {
        std::this_thread::yield();
    }
    f.inbox.end(Ending::kEndOfInput);
    worker.join();
    EXPECT_EQ(jobs, 101);
}

}  // namespace
}  // namespace bmoe::cli
