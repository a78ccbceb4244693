// A process that has hardly any file descriptors left.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <string>

// clang's check of objects' types looks at memory through a pipe of its own, and takes one that it cannot make for a fault.
#if defined(__has_feature)
#if __has_feature(undefined_behavior_sanitizer)
#define BMOE_NEEDS_DESCRIPTORS 1
#endif
#endif
#if defined(BMOE_NEEDS_DESCRIPTORS)
#define BMOE_SKIP_WITHOUT_DESCRIPTORS() GTEST_SKIP() << "this sanitizer needs file descriptors of its own"
#else
#define BMOE_SKIP_WITHOUT_DESCRIPTORS() static_cast<void>(0)
#endif

namespace bmoe::io::test {

// While it lives, `left` more files can be opened. For one thread at a time.
class FewDescriptors {
  public:
    explicit FewDescriptors(int left) {
        EXPECT_EQ(::getrlimit(RLIMIT_NOFILE, &before_), 0);
        // Descriptors are given out from the lowest free one on; those below the limit may have gaps.
        const int probe = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
        ::close(probe);
        rlim_t limit = static_cast<rlim_t>(probe);
        for (int found = 0; found < left; ++limit) {
            found += ::fcntl(static_cast<int>(limit), F_GETFD) < 0 ? 1 : 0;
        }
        text_ = std::to_string(limit);
        const rlimit few = {limit, before_.rlim_max};
        EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
    }
    ~FewDescriptors() { ::setrlimit(RLIMIT_NOFILE, &before_); }
    FewDescriptors(const FewDescriptors &) = delete;
    FewDescriptors &operator=(const FewDescriptors &) = delete;

    // The limit in force.
    const std::string &limit() const { return text_; }

  private:
    rlimit before_ = {};
    std::string text_;
};

}  // namespace bmoe::io::test
