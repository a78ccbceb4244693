#include "gguf/stdio_stream.h"

#include <sys/types.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <limits>

#include "base/error.h"

// The linker's names for --wrap=fread: calls to fread arrive at the first, the second is the C library's.
extern "C" {
// NOLINTNEXTLINE(bugprone-reserved-identifier,readability-identifier-naming)
size_t __wrap_fread(void *dst, size_t size, size_t n, FILE *file);
// NOLINTNEXTLINE(bugprone-reserved-identifier,readability-identifier-naming)
size_t __real_fread(void *dst, size_t size, size_t n, FILE *file);
}

namespace bmoe::gguf {
namespace {

static_assert(sizeof(off_t) == 8, "models are larger than 2 GiB: compile with -D_FILE_OFFSET_BITS=64");

// One open stream. Nodes stay in the list for ever and are used again, so that the list can be walked without a lock.
struct Stream {
    std::atomic<bool> in_use = true;
    std::atomic<FILE *> file = nullptr;
    VirtualGguf *source = nullptr;
    uint64_t pos = 0;  // the only position there is: the FILE has no buffer
    Stream *next = nullptr;
};

std::atomic<Stream *> streams = nullptr;

Stream *find_stream(const FILE *file) {
    for (Stream *each = streams.load(std::memory_order_acquire); each != nullptr; each = each->next) {
        if (each->file.load(std::memory_order_acquire) == file) {
            return each;
        }
    }
    return nullptr;
}

Stream *acquire_stream() {
    for (Stream *each = streams.load(std::memory_order_acquire); each != nullptr; each = each->next) {
        if (!each->in_use.exchange(true, std::memory_order_acquire)) {
            return each;
        }
    }
    auto *fresh = new Stream;
    fresh->next = streams.load(std::memory_order_relaxed);
    while (!streams.compare_exchange_weak(fresh->next, fresh, std::memory_order_release, std::memory_order_relaxed)) {
    }
    return fresh;
}

void release_stream(Stream *stream) {
    stream->file.store(nullptr, std::memory_order_release);
    stream->in_use.store(false, std::memory_order_release);
}

// What the C library calls if it reads by itself: for fgetc, or an fread that was not linked to the wrapper.
ssize_t read_cookie(void *cookie, char *dst, size_t n) {
    auto *stream = static_cast<Stream *>(cookie);
    const size_t got = stream->source->read(stream->pos, dst, n);
    stream->pos += got;
    if (got == 0 && n > 0 && !stream->source->error().empty()) {
        errno = EIO;
        return -1;
    }
    return static_cast<ssize_t>(got);
}

int seek_cookie(void *cookie, off_t *offset, int whence) {
    auto *stream = static_cast<Stream *>(cookie);
    uint64_t base = 0;
    if (whence == SEEK_CUR) {
        base = stream->pos;
    } else if (whence == SEEK_END) {
        base = stream->source->size();
    }
    off_t target = 0;
    if (__builtin_add_overflow(static_cast<off_t>(base), *offset, &target) || target < 0) {
        errno = EINVAL;
        return -1;
    }
    stream->pos = static_cast<uint64_t>(target);
    *offset = target;
    return 0;
}

int close_cookie(void *cookie) {
    release_stream(static_cast<Stream *>(cookie));
    return 0;
}

size_t read_items(Stream &stream, void *dst, size_t size, size_t n) {
    if (size == 0 || n == 0) {
        return 0;
    }
    const size_t wanted = std::min(n, std::numeric_limits<size_t>::max() / size) * size;
    const size_t got = stream.source->read(stream.pos, dst, wanted);
    stream.pos += got;
    if (got < wanted) {
        // One read through the C library meets the end or the error again and so sets feof or ferror.
        char none = 0;
        __real_fread(&none, 1, 1, stream.file.load(std::memory_order_relaxed));
    }
    return got / size;
}

}  // namespace

FilePtr open_stream(VirtualGguf &source) {
    Stream *stream = acquire_stream();
    stream->source = &source;
    stream->pos = 0;
    cookie_io_functions_t functions = {};
    functions.read = read_cookie;
    functions.seek = seek_cookie;
    functions.close = close_cookie;
    FILE *file = fopencookie(stream, "rb", functions);
    if (file == nullptr) {
        const int reason = errno;
        release_stream(stream);
        throw Error(cat("a stream for the model cannot be opened: ", std::strerror(reason)));
    }
    std::setvbuf(file, nullptr, _IONBF, 0);
    stream->file.store(file, std::memory_order_release);
    return FilePtr(file);
}

}  // namespace bmoe::gguf

size_t __wrap_fread(void *dst, size_t size, size_t n, FILE *file) {
    bmoe::gguf::Stream *stream = bmoe::gguf::find_stream(file);
    return stream == nullptr ? __real_fread(dst, size, n, file) : bmoe::gguf::read_items(*stream, dst, size, n);
}
