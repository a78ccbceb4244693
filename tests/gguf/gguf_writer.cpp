#include "tests/gguf/gguf_writer.h"

#include <fstream>
#include <functional>
#include <iterator>
#include <random>
#include <stdexcept>

#include "gguf/ggml_types.h"

namespace bmoe::gguf::test {

GgufWriter &GgufWriter::kv(std::string key, ValueType type, Bytes value) {
    kv_.push_back({std::move(key), type, std::move(value)});
    return *this;
}
GgufWriter &GgufWriter::text(std::string key, std::string_view value) {
    return kv(std::move(key), ValueType::kString, Bytes().string(value));
}
GgufWriter &GgufWriter::u16(std::string key, uint16_t value) {
    return kv(std::move(key), ValueType::kUint16, Bytes().number(value));
}
GgufWriter &GgufWriter::u32(std::string key, uint32_t value) {
    return kv(std::move(key), ValueType::kUint32, Bytes().number(value));
}
GgufWriter &GgufWriter::i32(std::string key, int32_t value) {
    return kv(std::move(key), ValueType::kInt32, Bytes().number(value));
}

GgufWriter &GgufWriter::i32_array(std::string key, const std::vector<int32_t> &values) {
    Bytes out;
    out.number(uint32_t(ValueType::kInt32)).number(uint64_t{values.size()});
    for (const int32_t value : values) out.number(value);
    return kv(std::move(key), ValueType::kArray, std::move(out));
}

GgufWriter &GgufWriter::string_array(std::string key, const std::vector<std::string> &values) {
    Bytes out;
    out.number(uint32_t(ValueType::kString)).number(uint64_t{values.size()});
    for (const std::string &value : values) out.string(value);
    return kv(std::move(key), ValueType::kArray, std::move(out));
}

GgufWriter &GgufWriter::tensor(std::string name, uint32_t type, std::vector<uint64_t> ne,
                               std::optional<uint64_t> offset) {
    tensors.push_back({std::move(name), type, std::move(ne), offset});
    return *this;
}

std::vector<std::byte> GgufWriter::bytes() const {
    Bytes out;
    out.raw(magic).number(version).number(n_tensors.value_or(tensors.size())).number(n_kv.value_or(kv_.size()));
    for (const Entry &entry : kv_) {
        out.string(entry.key).number(entry.type);
        out.data.insert(out.data.end(), entry.value.data.begin(), entry.value.data.end());
    }
    uint64_t offset = 0;
    for (const TensorSpec &spec : tensors) {
        out.string(spec.name).number(uint32_t(spec.ne.size()));
        for (const uint64_t ne : spec.ne) out.number(ne);
        out.number(spec.type).number(spec.offset.value_or(offset));
        offset = (offset + tensor_size(spec) + alignment - 1) / alignment * alignment;
    }
    for (const TensorSpec &spec : tensors) {
        out.pad(alignment);
        const auto data = tensor_data(spec.name, tensor_size(spec));
        out.data.insert(out.data.end(), data.begin(), data.end());
        out.pad(alignment);
    }
    out.data.resize(out.data.size() + trailing_zeros);
    return std::move(out.data);
}

void GgufWriter::write(const std::string &path) const { write_bytes(path, bytes()); }

uint64_t tensor_size(const TensorSpec &spec) {
    constexpr uint64_t kLargest = 1 << 24;  // shapes of malformed files have no data
    uint64_t elements = 1;
    for (const uint64_t ne : spec.ne) {
        if (ne != 0 && elements > kLargest / ne) return 0;
        elements *= ne;
    }
    const auto traits = type_traits(spec.type);
    return traits ? elements / traits->block * traits->block_bytes : 0;
}

std::vector<std::byte> tensor_data(std::string_view name, uint64_t size) {
    std::mt19937 random(uint32_t(std::hash<std::string_view>()(name)));
    std::vector<std::byte> data(size);
    for (std::byte &each : data) each = std::byte(random() & 0xff);
    return data;
}

void write_bytes(const std::string &path, const std::vector<std::byte> &bytes) {
    std::ofstream out(path, std::ios::binary | std::ios::trunc);
    out.write(reinterpret_cast<const char *>(bytes.data()), std::streamsize(bytes.size()));
    out.close();
    if (!out) throw std::runtime_error("cannot write " + path);
}

std::vector<std::byte> read_bytes(const std::string &path) {
    std::ifstream in(path, std::ios::binary);
    const std::string text{std::istreambuf_iterator<char>(in), {}};
    return Bytes().raw(text).data;
}

}  // namespace bmoe::gguf::test
