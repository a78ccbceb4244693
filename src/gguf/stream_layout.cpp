#include "gguf/stream_layout.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <string_view>
#include <type_traits>
#include <utility>

#include "base/error.h"
#include "gguf/checked_math.h"

namespace bmoe::gguf {
namespace {

class Encoder {
  public:
    template <typename T>
    void number(T value) {
        static_assert(std::is_integral_v<T>);
        bytes(&value, sizeof(value));
    }
    void string(std::string_view text) {
        number(uint64_t{text.size()});
        bytes(text.data(), text.size());
    }
    void bytes(const void *data, size_t n) {
        const size_t at = out_.size();
        out_.resize(at + n);
        if (n > 0) {
            std::memcpy(out_.data() + at, data, n);
        }
    }
    std::vector<std::byte> take() { return std::move(out_); }

  private:
    std::vector<std::byte> out_;
};

bool is_split_key(const KeyValue &kv) { return kv.key.starts_with("split."); }

// Offsets of the tensors from the start of the data: ggml wants them without gaps, in the order of the header. One more
// than there are tensors; the last is the size of the data.
std::vector<uint64_t> data_offsets(const Header &metadata, const std::vector<Tensor> &tensors,
                                   const std::string &path) {
    std::vector<uint64_t> offsets = {0};
    offsets.reserve(tensors.size() + 1);
    for (const Tensor &tensor : tensors) {
        const auto end = checked_add(offsets.back(), tensor.info.bytes);
        const auto next = end ? checked_align(*end, metadata.alignment) : std::nullopt;
        if (!next) {
            throw Error(cat(path, ": the tensors of the model are larger than 2^64 bytes together"));
        }
        offsets.push_back(*next);
    }
    return offsets;
}

std::vector<std::byte> encode_header(const Header &metadata, const std::vector<Tensor> &tensors,
                                     const std::vector<uint64_t> &offsets) {
    Encoder out;
    out.bytes("GGUF", 4);
    out.number(metadata.version);
    out.number(uint64_t{tensors.size()});
    out.number(static_cast<uint64_t>(metadata.kv.size()) -
               static_cast<uint64_t>(std::count_if(metadata.kv.begin(), metadata.kv.end(), is_split_key)));
    for (const KeyValue &kv : metadata.kv) {
        if (!is_split_key(kv)) {
            out.string(kv.key);
            out.number(kv.type);
            out.bytes(kv.value.data(), kv.value.size());
        }
    }
    for (size_t i = 0; i < tensors.size(); ++i) {
        const TensorInfo &info = tensors[i].info;
        out.string(info.name);
        out.number(info.n_dims);
        for (uint32_t d = 0; d < info.n_dims; ++d) {
            out.number(info.ne[d]);
        }
        out.number(info.type);
        out.number(offsets[i]);
    }
    return out.take();
}

}  // namespace

StreamLayout lay_out_stream(const Header &metadata, const std::vector<Tensor> &tensors, const std::string &path) {
    const std::vector<uint64_t> offsets = data_offsets(metadata, tensors, path);
    StreamLayout layout;
    layout.header = encode_header(metadata, tensors, offsets);
    layout.size = layout.header.size();
    if (tensors.empty()) {
        return layout;
    }
    const auto data = checked_align(layout.header.size(), metadata.alignment);
    const auto end = data ? checked_add(*data, offsets.back()) : std::nullopt;
    if (!end || *end > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
        throw Error(cat(path, ": the model is larger than 2^63 bytes"));
    }
    layout.size = *end;
    layout.extents.reserve(tensors.size());
    for (size_t i = 0; i < tensors.size(); ++i) {
        layout.extents.push_back({*data + offsets[i], &tensors[i]});
    }
    return layout;
}

}  // namespace bmoe::gguf
