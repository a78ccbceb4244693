#include "gguf/virtual_gguf.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <utility>

#include "base/error.h"
#include "gguf/quote.h"

namespace bmoe::gguf {

VirtualGguf::VirtualGguf(const ModelFile &model, io::BulkReader &reader, Skip skip)
    : model_(model),
      reader_(reader),
      skip_(std::move(skip)),
      layout_(lay_out_stream(model.metadata(), model.tensors(), model.shards().front()->path())) {}

size_t VirtualGguf::read(uint64_t pos, void *dst, size_t n) {
    if (pos >= size()) {
        return 0;
    }
    n = std::min<uint64_t>(n, size() - pos);
    size_t done = 0;
    while (done < n && error_.empty()) {
        done += read_piece(pos + done, static_cast<std::byte *>(dst) + done, n - done);
    }
    return done;
}

// Reads up to the next border between header, padding and tensors.
size_t VirtualGguf::read_piece(uint64_t pos, std::byte *dst, size_t n) {
    if (pos < layout_.header.size()) {
        n = std::min<uint64_t>(n, layout_.header.size() - pos);
        std::memcpy(dst, layout_.header.data() + pos, n);
        return n;
    }
    const auto next =
        std::upper_bound(layout_.extents.begin(), layout_.extents.end(), pos,
                         [](uint64_t at, const StreamLayout::Extent &extent) { return at < extent.begin; });
    if (next != layout_.extents.begin()) {
        const StreamLayout::Extent &extent = *(next - 1);
        const uint64_t begin = pos - extent.begin;
        if (begin < extent.tensor->info.bytes) {
            return read_tensor(*extent.tensor, begin, dst, std::min<uint64_t>(n, extent.tensor->info.bytes - begin));
        }
    }
    const uint64_t end = next == layout_.extents.end() ? size() : next->begin;
    n = std::min<uint64_t>(n, end - pos);
    std::memset(dst, 0, n);
    return n;
}

size_t VirtualGguf::read_tensor(const Tensor &tensor, uint64_t begin, std::byte *dst, size_t n) {
    const io::RandomAccessFile &file = *model_.shards()[tensor.shard];
    try {
        if (skip_ && skip_(tensor, dst)) {
            skipped_ += n;
            return n;
        }
        const io::ReadStatus status = reader_.read(file, tensor.info.offset + begin, n, dst);
        if (status.ok()) {
            served_ += n;
            return n;
        }
        error_ = cat("tensor ", quote(tensor.info.name), ": ", status.error);
    } catch (const std::exception &failed) {
        error_ = cat("tensor ", quote(tensor.info.name), " of ", file.path(), ": ", failed.what());
    }
    return 0;
}

}  // namespace bmoe::gguf
