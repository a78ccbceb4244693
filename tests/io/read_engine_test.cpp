// Which engine a read pool gets, also where the system gives no io_uring.
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <cerrno>
#include <cstddef>
#include <string>
#include <thread>

#include "base/error.h"
#include "few_descriptors.h"
#include "io/read_pool.h"

namespace bmoe::io {
namespace {

// Makes the calling thread, and those it starts, one of a sandbox where a system call fails. False if that is refused.
bool enter_sandbox(uint32_t call, uint32_t error) {
    sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const sock_fprog program = {std::size(code), code};
    return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) == 0;
}

struct Outcome {
    bool sandboxed = false;
    std::string uring_error;
    ReadEngine lanes = ReadEngine::kAuto;
    ReadEngine automatic = ReadEngine::kAuto;
    std::string note;
};

Outcome make_pools_without(uint32_t call, uint32_t error) {
    Outcome outcome;
    std::thread thread([&] {
        outcome.sandboxed = enter_sandbox(call, error);
        if (!outcome.sandboxed) return;
        try {
            ReadPool(2, ReadEngine::kUring);
        } catch (const Error &refused) {
            outcome.uring_error = refused.what();
        }
        outcome.lanes = ReadPool(2, ReadEngine::kLanes).engine();
        const ReadPool pool(2, ReadEngine::kAuto);
        outcome.automatic = pool.engine();
        outcome.note = pool.note();
    });
    thread.join();
    return outcome;
}

TEST(ReadEngineTest, WithoutIoUringIsAnErrorOrLanesWithANote) {
    struct Case {
        uint32_t call;
        uint32_t error;
        const char *text;
    };
    const Case cases[] = {
        {__NR_io_uring_setup, EPERM, "Operation not permitted"},
        {__NR_io_uring_setup, ENOSYS, "Function not implemented"},
        // Sandboxes that let a ring be made, but not used.
        {__NR_io_uring_register, EPERM, "Operation not permitted"},
        {__NR_io_uring_enter, EPERM, "Operation not permitted"},
    };
    for (const auto &[call, error, text] : cases) {
        const Outcome outcome = make_pools_without(call, error);
        if (!outcome.sandboxed) GTEST_SKIP() << "the system has no seccomp filters";
        if (outcome.uring_error.find("built without") != std::string::npos) GTEST_SKIP() << outcome.uring_error;
        const std::string reason = std::string("io_uring: the system refuses it (") + text +
                                   "): too old a kernel, kernel.io_uring_disabled, or a sandbox";
        EXPECT_EQ(outcome.uring_error, reason + "; use --io-engine lanes");
        EXPECT_EQ(outcome.lanes, ReadEngine::kLanes);
        EXPECT_EQ(outcome.automatic, ReadEngine::kLanes);
        EXPECT_EQ(outcome.note, reason + "; reading by threads instead");
    }
}

TEST(ReadEngineTest, WithoutDescriptorsNamesTheirLimit) {
    BMOE_SKIP_WITHOUT_DESCRIPTORS();
    try {
        ReadPool(2, ReadEngine::kUring);
    } catch (const Error &error) {
        GTEST_SKIP() << error.what();
    }
    // None for the descriptor that wakes the thread; then none for the ring.
    for (const int left : {0, 1}) {
        std::string limit;
        std::string error;
        std::string note;
        ReadEngine automatic = ReadEngine::kAuto;
        {
            const test::FewDescriptors few(left);
            limit = few.limit();
            try {
                ReadPool(2, ReadEngine::kUring);
            } catch (const Error &refused) {
                error = refused.what();
            }
            const ReadPool pool(2, ReadEngine::kAuto);
            automatic = pool.engine();
            note = pool.note();
        }
        const std::string reason =
            "io_uring: no file descriptor is left for it (Too many open files; this process may have " + limit +
            " files open: raise that limit (ulimit -n))";
        EXPECT_EQ(error, reason + "; use --io-engine lanes");
        EXPECT_EQ(automatic, ReadEngine::kLanes);
        EXPECT_EQ(note, reason + "; reading by threads instead");
    }
}

TEST(ReadEngineTest, HasANoteOnlyIfItIsNotTheFirstChoice) {
    const ReadPool automatic(2);
    EXPECT_EQ(automatic.note().empty(), automatic.engine() == ReadEngine::kUring);
    const ReadPool lanes(2, ReadEngine::kLanes);
    EXPECT_EQ(lanes.engine(), ReadEngine::kLanes);
    EXPECT_EQ(lanes.note(), "");
}

}  // namespace
}  // namespace bmoe::io
