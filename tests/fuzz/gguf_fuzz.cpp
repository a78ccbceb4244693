// Whatever the bytes: a header is refused with bmoe::Error or means something that all later code can rely on.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <vector>

#include "base/error.h"
#include "gguf/expert_layers.h"
#include "gguf/header.h"
#include "gguf/stream_layout.h"

namespace bmoe::gguf {
namespace {

void require(bool ok, const char *what) {
    if (!ok) {
        std::fprintf(stderr, "violated: %s\n", what);
        std::abort();
    }
}

void check_header(const Header &header, uint64_t file_size) {
    for (const TensorInfo &info : header.tensors) {
        require(info.bytes > 0 && info.bytes <= file_size && info.offset <= file_size - info.bytes,
                "data inside the file");
        require(info.offset >= header.data_offset, "data after the header");
        require((info.offset - header.data_offset) % header.alignment == 0, "data aligned");
    }
    for (const KeyValue &kv : header.kv) {
        (void)header.integer(kv.key);
        (void)header.integers(kv.key);
        (void)header.text(kv.key);
        require(header.find(kv.key) == &kv, "keys are unique");
    }
}

void check_layers(const std::vector<ExpertLayer> &layers, uint64_t file_size) {
    for (const ExpertLayer &layer : layers) {
        require(!layer.banks.empty() && layer.n_expert > 0, "a layer has experts");
        for (const Bank &bank : layer.banks) {
            require(bank.n_expert == layer.n_expert, "banks of a layer agree");
            require(bank.offset + bank.bytes_per_expert * bank.n_expert <= file_size, "slices inside the file");
        }
    }
}

void check_stream(const Header &header, const std::vector<Tensor> &tensors) {
    const StreamLayout layout = lay_out_stream(header, tensors, "fuzz.gguf");
    const auto merged = parse_header(layout.header, layout.size, "stream");
    require(merged.has_value(), "the stream has a header");
    require(merged->tensors.size() == tensors.size(), "the stream has all tensors");
    for (size_t i = 0; i < tensors.size(); ++i) {
        require(merged->tensors[i].name == tensors[i].info.name, "tensors keep their order");
        require(merged->tensors[i].bytes == tensors[i].info.bytes, "tensors keep their size");
        require(merged->tensors[i].offset == layout.extents[i].begin, "tensors lie where the header says");
    }
}

void check(std::span<const std::byte> bytes, uint64_t file_size) {
    try {
        const auto header = parse_header(bytes, file_size, "fuzz.gguf");
        if (!header) {
            require(bytes.size() < file_size, "a whole file is never too little");
            return;
        }
        check_header(*header, file_size);
        std::vector<Tensor> tensors;
        for (const TensorInfo &info : header->tensors) tensors.push_back({info, 0});
        check_layers(find_expert_layers(tensors, "fuzz.gguf"), file_size);
        check_stream(*header, tensors);
    } catch (const Error &) {
    }
}

}  // namespace
}  // namespace bmoe::gguf

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const std::span bytes(reinterpret_cast<const std::byte *>(data), size);
    bmoe::gguf::check(bytes, size);
    bmoe::gguf::check(bytes, size + (uint64_t{1} << 40));  // the start of a large file
    return 0;
}
