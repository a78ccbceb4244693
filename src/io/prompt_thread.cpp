#include "io/prompt_thread.h"

#include <linux/sched.h>
#include <linux/sched/types.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace bmoe::io {

void prefer_promptness() {
    constexpr __u64 kSliceNs = 100'000;  // the shortest that Linux takes
    sched_attr attributes = {};
    // Priority and nice value stay as they are; the slice of another policy than the usual one means something else.
    if (::syscall(SYS_sched_getattr, 0, &attributes, sizeof attributes, 0) != 0 ||
        attributes.sched_policy != SCHED_NORMAL) {
        return;
    }
    attributes.sched_runtime = kSliceNs;
    // A refusal leaves the thread as it is.
    static_cast<void>(::syscall(SYS_sched_setattr, 0, &attributes, 0));
}

}  // namespace bmoe::io
