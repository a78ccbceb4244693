#include <gtest/gtest.h>
#include <unistd.h>

#include <string>
#include <string_view>
#include <thread>

#include "cli/session/line_reader.h"

namespace bmoe::cli {
namespace {

class Pipe {
  public:
    Pipe() {
        if (pipe(ends_) != 0) throw std::runtime_error("cannot make a pipe");
    }
    ~Pipe() {
        close(ends_[0]);
        close_end();
    }
    Pipe(const Pipe &) = delete;
    Pipe &operator=(const Pipe &) = delete;

    int reading() const { return ends_[0]; }
    void put(std::string_view text) {
        while (!text.empty()) {
            const ssize_t n = write(ends_[1], text.data(), text.size());
            ASSERT_GT(n, 0);
            text.remove_prefix(static_cast<size_t>(n));
        }
    }
    void close_end() {
        if (ends_[1] >= 0) close(ends_[1]);
        ends_[1] = -1;
    }

  private:
    int ends_[2] = {-1, -1};
};

using Got = LineReader::Got;

TEST(LineReader, TakesLinesWithEitherEndAndALastOneWithout) {
    Pipe pipe;
    const WakeEvent wake;
    LineReader reader(pipe.reading(), wake, 100);
    pipe.put("one\ntwo\r\n\nthr");
    std::string line;
    for (const char *expected : {"one", "two", ""}) {
        ASSERT_EQ(reader.next(line), Got::kLine);
        EXPECT_EQ(line, expected);
    }
    pipe.put("ee");
    pipe.close_end();
    ASSERT_EQ(reader.next(line), Got::kLine);
    EXPECT_EQ(line, "three");
    EXPECT_EQ(reader.next(line), Got::kEnd);
    EXPECT_EQ(reader.next(line), Got::kEnd);
}

TEST(LineReader, PassesOverLinesThatAreTooLong) {
    Pipe pipe;
    const WakeEvent wake;
    LineReader reader(pipe.reading(), wake, 10);
    std::thread writer([&] {
        pipe.put(std::string(300000, 'x') + "\n0123456789\n01234567890\nlast\n" + std::string(300000, 'y'));
        pipe.close_end();
    });
    std::string line;
    EXPECT_EQ(reader.next(line), Got::kTooLong);
    EXPECT_EQ(reader.next(line), Got::kLine);
    EXPECT_EQ(line, "0123456789");
    EXPECT_EQ(reader.next(line), Got::kTooLong);
    EXPECT_EQ(reader.next(line), Got::kLine);
    EXPECT_EQ(line, "last");
    EXPECT_EQ(reader.next(line), Got::kTooLong);
    EXPECT_EQ(reader.next(line), Got::kEnd);
    writer.join();
}

TEST(LineReader, IsWokenWhileItWaits) {
    Pipe pipe;
    WakeEvent wake;
    LineReader reader(pipe.reading(), wake, 10);
    std::thread waker([&] { wake.wake(); });
    std::string line;
    EXPECT_EQ(reader.next(line), Got::kWoken);
    waker.join();
}

}  // namespace
}  // namespace bmoe::cli
