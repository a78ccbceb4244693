#include "io/prompt_thread.h"

#include <linux/sched/types.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace bmoe::io {

void prefer_promptness() {
    constexpr __u64 kSliceNs = 100'000;  // the shortest that Linux takes
    sched_attr attributes = {};
    attributes.size = sizeof attributes;
    attributes.sched_runtime = kSliceNs;
    // A refusal leaves the thread as it is.
    static_cast<void>(::syscall(SYS_sched_setattr, 0, &attributes, 0));
}

}  // namespace bmoe::io
