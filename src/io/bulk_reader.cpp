#include "io/bulk_reader.h"

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.h"
#include "io/aligned_buffer.h"
#include "io/guarded_read.h"

namespace bmoe::io {
namespace {

constexpr int kMaxLanes = 64;
constexpr uint64_t kPage = 4096;

// Smaller pieces cost more in system calls than a further lane wins.
constexpr uint64_t kMinPiece = 256 << 10;

uint64_t round_up(uint64_t value, uint64_t multiple) { return (value + multiple - 1) / multiple * multiple; }

}  // namespace

struct BulkReader::Impl {
    explicit Impl(uint64_t chunk_bytes) : chunk(chunk_bytes) {}

    ~Impl() {
        {
            const std::lock_guard lock(mutex);
            stopping = true;
        }
        start.notify_all();
        for (std::thread &thread : threads) thread.join();
    }

    // Makes every bounce buffer fit for direct reads in blocks of `block` bytes. Called while no lane works.
    void fit_buffers(uint64_t block) {
        if (block <= alignment && chunk % block == 0) return;
        alignment = std::max(alignment, block);
        chunk = round_up(chunk, block);
        for (AlignedBuffer &bounce : bounces) bounce = AlignedBuffer(chunk, alignment);
    }

    // The body of a helper thread.
    void help(const AlignedBuffer &bounce) {
        std::unique_lock lock(mutex);
        for (;;) {
            start.wait(lock, [this] { return stopping || wanted > 0; });
            if (stopping) return;
            --wanted;
            ++active;
            lock.unlock();
            read_pieces(bounce);
            lock.lock();
            if (--active == 0) finished.notify_one();
        }
    }

    // Reads pieces until there are none left or one failed. Pieces are handed out by offset, so when one has failed, all
    // before it are read to their end and the first error by offset is known.
    void read_pieces(const AlignedBuffer &bounce) {
        uint64_t from = 0;
        uint64_t to = 0;
        while (next_piece(from, to)) {
            ReadStatus status = read_piece(from, to, bounce);
            if (status.ok()) continue;
            const std::lock_guard lock(mutex);
            if (error.ok() || from < error_offset) {
                error = std::move(status);
                error_offset = from;
            }
            position = end;
            return;
        }
    }

    // Pieces end at multiples of the piece size in the file, so that a piece with its rounding to blocks fits in a bounce
    // buffer and only the first and the last need rounding.
    bool next_piece(uint64_t &from, uint64_t &to) {
        const std::lock_guard lock(mutex);
        if (position == end) return false;
        from = position;
        to = end - from <= piece - from % piece ? end : from + (piece - from % piece);
        position = to;
        return true;
    }

    ReadStatus read_piece(uint64_t from, uint64_t to, const AlignedBuffer &bounce) const {
        std::byte *target = destination + (from - begin);
        const uint64_t length = to - from;
        const uint64_t block = file->block_size();
        const bool fits_in_place =
            from % block == 0 && length % block == 0 && reinterpret_cast<uintptr_t>(target) % block == 0;
        if (fits_in_place) return guarded_read(*file, from, length, target);
        ReadStatus status = guarded_read(*file, from, length, bounce.data());
        if (status.ok()) std::memcpy(target, bounce.data() + file->span(from, length).lead, length);
        return status;
    }

    uint64_t chunk;
    uint64_t alignment = kPage;
    std::vector<AlignedBuffer> bounces;  // the last one is the caller's

    // The call being served; written while no lane works.
    const RandomAccessFile *file = nullptr;
    std::byte *destination = nullptr;
    uint64_t begin = 0;
    uint64_t end = 0;
    uint64_t piece = 0;

    // Guarded by `mutex`.
    std::mutex mutex;
    std::condition_variable start;
    std::condition_variable finished;
    uint64_t position = 0;  // of the next piece
    ReadStatus error;
    uint64_t error_offset = 0;
    int wanted = 0;  // helpers that may still join the call
    int active = 0;  // helpers at work
    bool stopping = false;

    std::vector<std::thread> threads;
};

BulkReader::BulkReader(int lanes, size_t chunk) : impl_(std::make_unique<Impl>(chunk)) {
    if (lanes < 1 || lanes > kMaxLanes) {
        throw Error(cat("bulk reader: ", lanes, " lanes asked for; give a number from 1 to ", kMaxLanes));
    }
    if (chunk == 0 || chunk % kPage != 0) {
        throw Error(cat("bulk reader: chunks of ", chunk, " bytes asked for; give a multiple of ", kPage));
    }
    for (int lane = 0; lane < lanes; ++lane) impl_->bounces.emplace_back(chunk, kPage);
    const size_t helpers = static_cast<size_t>(lanes) - 1;
    impl_->threads.reserve(helpers);
    try {
        for (size_t i = 0; i < helpers; ++i) {
            impl_->threads.emplace_back([impl = impl_.get(), i] { impl->help(impl->bounces[i]); });
        }
    } catch (const std::system_error &error) {
        throw Error(cat("bulk reader: the system gives only ", impl_->threads.size(), " of ", helpers, " threads (",
                        error.code().message(), "); use fewer lanes"));
    }
}

BulkReader::~BulkReader() = default;

ReadStatus BulkReader::read(const RandomAccessFile &file, uint64_t offset, uint64_t length, void *dst) {
    if (length == 0) return {};
    if (offset > file.size() || length > file.size() - offset) {
        return {cat(file.path(), ": ", length, " bytes at offset ", offset, " reach beyond the end of the file (size ",
                    file.size(), "): the file is incomplete; copy or download it again")};
    }
    Impl &impl = *impl_;
    const uint64_t block = file.block_size();
    const uint64_t lanes = impl.bounces.size();
    uint64_t wake = 0;
    {
        const std::lock_guard lock(impl.mutex);
        impl.fit_buffers(block);
        impl.file = &file;
        impl.destination = static_cast<std::byte *>(dst);
        impl.begin = offset;
        impl.end = offset + length;
        // A range of a few chunks is cut smaller, so that every lane has a part of it.
        impl.piece = std::min(impl.chunk, round_up(std::max((length + lanes - 1) / lanes, kMinPiece), block));
        impl.position = offset;
        impl.error = {};
        const uint64_t pieces = (impl.end - 1) / impl.piece - offset / impl.piece + 1;
        wake = std::min(pieces, lanes) - 1;
        impl.wanted = static_cast<int>(wake);
    }
    for (; wake > 0; --wake) impl.start.notify_one();
    impl.read_pieces(impl.bounces.back());

    std::unique_lock lock(impl.mutex);
    impl.wanted = 0;
    impl.finished.wait(lock, [&impl] { return impl.active == 0; });
    return std::move(impl.error);
}

}  // namespace bmoe::io
