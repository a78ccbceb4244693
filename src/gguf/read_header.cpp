#include "gguf/read_header.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "gguf/damaged.h"
#include "io/aligned_buffer.h"

namespace bmoe::gguf {
namespace {

// The header of a model with 150 000 tokens takes about 6 MiB.
constexpr uint64_t kFirstRead = uint64_t{8} << 20;
constexpr uint64_t kLargestHeader = uint64_t{1} << 30;

}  // namespace

Header read_header(const io::RandomAccessFile &file) {
    const uint64_t size = file.size();
    io::AlignedBuffer bytes(0, file.block_size());
    uint64_t have = 0;  // until the file's end is reached, a multiple of the block size
    for (uint64_t want = std::max<uint64_t>(kFirstRead, file.block_size());; want *= 4) {
        const uint64_t end = std::min(want, size);
        io::AlignedBuffer larger(file.span(0, end).length, file.block_size());
        std::memcpy(larger.data(), bytes.data(), have);
        bytes = std::move(larger);
        if (end > have) {
            if (const io::ReadStatus status = file.read(have, end - have, bytes.data() + have); !status.ok()) {
                throw Error(status.error);
            }
            have = end;
        }
        if (auto header = parse_header({bytes.data(), have}, size, file.path())) {
            return std::move(*header);
        }
        if (have == size || want >= kLargestHeader) {
            throw Error(
                cat(file.path(), ": the header is longer than ", have, " bytes, more than a model's can be", kDamaged));
        }
    }
}

}  // namespace bmoe::gguf
