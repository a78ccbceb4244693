// Preloaded library that injects faults into positioned reads of a whole process. Configured by environment variables:
//   BMOE_FAULT_PATH    part of the path of the files to fault; without it the library does nothing
//   BMOE_FAULT_OFFSET  first byte of the faulty range of the file; default 0
//   BMOE_FAULT_LENGTH  bytes in the faulty range; default: to the end
//   BMOE_FAULT_KIND    eio    reads fail with EIO
//                      eintr  every second read is interrupted
//                      short  reads return half of what was asked for
//                      refuse direct reads fail with EINVAL, as where a file system takes only the open
//                      lie    direct reads return wrong bytes in the faulty range
//                      slow   reads take BMOE_FAULT_DELAY_MS (default 20) longer
//   BMOE_FAULT_AFTER   reads of the range that pass first; default 0
//   BMOE_FAULT_COUNT   reads of the range that are faulty then; default: all
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

enum kind { KIND_NONE, KIND_EIO, KIND_EINTR, KIND_SHORT, KIND_REFUSE, KIND_LIE, KIND_SLOW };

typedef ssize_t (*pread_function)(int, void *, size_t, off_t);

static struct {
    enum kind kind;
    const char *path;
    uint64_t begin;
    uint64_t end;
    uint64_t after;
    uint64_t count;
    uint64_t delay_ms;
    pread_function pread;
} config;

static pthread_once_t configured = PTHREAD_ONCE_INIT;
static atomic_uint_fast64_t matching_reads;

static uint64_t number(const char *name, uint64_t otherwise) {
    const char *text = getenv(name);
    return text ? strtoull(text, NULL, 10) : otherwise;
}

static enum kind parse_kind(const char *text) {
    static const char *const names[] = {"", "eio", "eintr", "short", "refuse", "lie", "slow"};
    for (int kind = KIND_EIO; kind <= KIND_SLOW; ++kind) {
        if (text && strcmp(text, names[kind]) == 0) return (enum kind)kind;
    }
    fprintf(stderr, "fault_shim: BMOE_FAULT_KIND must be eio, eintr, short, refuse, lie or slow\n");
    exit(2);
}

static void configure(void) {
    *(void **)&config.pread = dlsym(RTLD_NEXT, "pread");
    config.path = getenv("BMOE_FAULT_PATH");
    if (!config.path) return;
    config.begin = number("BMOE_FAULT_OFFSET", 0);
    const uint64_t length = number("BMOE_FAULT_LENGTH", UINT64_MAX);
    config.end = length > UINT64_MAX - config.begin ? UINT64_MAX : config.begin + length;
    config.after = number("BMOE_FAULT_AFTER", 0);
    config.count = number("BMOE_FAULT_COUNT", UINT64_MAX);
    config.delay_ms = number("BMOE_FAULT_DELAY_MS", 20);
    config.kind = parse_kind(getenv("BMOE_FAULT_KIND"));
}

static int path_matches(int fd) {
    char link[64];
    char path[PATH_MAX];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    const ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0) return 0;
    path[length] = '\0';
    return strstr(path, config.path) != NULL;
}

// The fault for this read, counting it.
static enum kind next_fault(int fd, uint64_t begin, uint64_t end) {
    if (config.kind == KIND_NONE || begin >= config.end || end <= config.begin || !path_matches(fd)) return KIND_NONE;
    const int is_for_direct = config.kind == KIND_LIE || config.kind == KIND_REFUSE;
    if (is_for_direct && !(fcntl(fd, F_GETFL) & O_DIRECT)) return KIND_NONE;
    const uint64_t index = atomic_fetch_add(&matching_reads, 1);
    if (index < config.after || index - config.after >= config.count) return KIND_NONE;
    if (config.kind == KIND_EINTR && (index - config.after) % 2 == 1) return KIND_NONE;
    return config.kind;
}

static void falsify(unsigned char *bytes, uint64_t offset, uint64_t length) {
    for (uint64_t i = 0; i < length; ++i) {
        if (offset + i >= config.begin && offset + i < config.end) bytes[i] ^= 0x5a;
    }
}

static ssize_t faulty_pread(int fd, void *buffer, size_t length, off_t offset) {
    pthread_once(&configured, configure);
    const uint64_t begin = (uint64_t)offset;
    const enum kind fault = next_fault(fd, begin, begin + length);
    if (fault == KIND_EIO || fault == KIND_EINTR || fault == KIND_REFUSE) {
        errno = fault == KIND_EIO ? EIO : fault == KIND_EINTR ? EINTR : EINVAL;
        return -1;
    }
    if (fault == KIND_SLOW) {
        const struct timespec delay = {(time_t)(config.delay_ms / 1000), (long)(config.delay_ms % 1000) * 1000000};
        nanosleep(&delay, NULL);
    }
    const ssize_t got = config.pread(fd, buffer, length, offset);
    if (got > 0 && fault == KIND_LIE) falsify(buffer, begin, (uint64_t)got);
    // The whole range is read and less of it reported: half a direct request might not be aligned.
    if (got > 1 && fault == KIND_SHORT) return (got + 1) / 2;
    return got;
}

ssize_t pread(int fd, void *buffer, size_t length, off_t offset) { return faulty_pread(fd, buffer, length, offset); }

ssize_t pread64(int fd, void *buffer, size_t length, off64_t offset) {
    return faulty_pread(fd, buffer, length, offset);
}

// What fortified builds call.
ssize_t __pread_chk(int fd, void *buffer, size_t length, off_t offset, size_t room);
ssize_t __pread64_chk(int fd, void *buffer, size_t length, off64_t offset, size_t room);

ssize_t __pread_chk(int fd, void *buffer, size_t length, off_t offset, size_t room) {
    if (length > room) abort();
    return faulty_pread(fd, buffer, length, offset);
}

ssize_t __pread64_chk(int fd, void *buffer, size_t length, off64_t offset, size_t room) {
    if (length > room) abort();
    return faulty_pread(fd, buffer, length, offset);
}
