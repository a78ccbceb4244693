#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <numeric>
#include <unordered_set>

#include "base/error.h"
#include "gguf/checked_math.h"
#include "gguf/damaged.h"
#include "gguf/ggml_types.h"
#include "gguf/header.h"
#include "gguf/quote.h"
#include "gguf/value_type.h"

namespace bmoe::gguf {
namespace {

static_assert(std::endian::native == std::endian::little, "GGUF values are used as they lie in the file");

constexpr uint64_t kLongestTensorName = 63;  // ggml keeps 64 bytes, the last a zero
constexpr uint64_t kLongestKey = 65535;      // of the GGUF specification

// The least that one entry takes in the file: bounds what a count may promise.
constexpr uint64_t kLeastKeyValue = 8 + 1 + 4 + 1;
constexpr uint64_t kLeastTensorInfo = 8 + 1 + 4 + 8 + 4 + 8;

// Thrown where the header goes on after the bytes at hand. Never leaves this file.
struct Incomplete {};

class Parser {
  public:
    Parser(std::span<const std::byte> bytes, uint64_t file_size, const std::string &path)
        : bytes_(bytes.first(std::min<uint64_t>(bytes.size(), file_size))), file_size_(file_size), path_(path) {}

    Header parse() {
        parse_preamble();
        for (uint64_t i = 0; i < n_kv_; ++i) {
            parse_key_value();
        }
        set_alignment();
        for (uint64_t i = 0; i < n_tensors_; ++i) {
            parse_tensor_info();
        }
        place_tensors();
        check_inside_file();
        check_no_overlap();
        return std::move(header_);
    }

  private:
    template <typename... Args>
    [[noreturn]] void fail(const Args &...args) const {
        throw Error(cat(path_, ": ", args...));
    }

    // Where a file that was complete could not be like that.
    template <typename... Args>
    [[noreturn]] void fail_damaged(const Args &...args) const {
        fail(args..., kDamaged);
    }

    uint64_t left_in_file() const { return file_size_ - pos_; }

    // The next `n` bytes. `what` says what they are, for the message if the file ends before.
    template <typename... What>
    std::span<const std::byte> take(uint64_t n, const What &...what) {
        if (n > left_in_file()) {
            fail_damaged(what..., " needs ", n, " bytes at offset ", pos_, ", but the file has only ", left_in_file(),
                         " more");
        }
        if (n > bytes_.size() - pos_) {
            throw Incomplete{};
        }
        const auto taken = bytes_.subspan(pos_, n);
        pos_ += n;
        return taken;
    }

    template <typename T, typename... What>
    T number(const What &...what) {
        T value;
        std::memcpy(&value, take(sizeof(T), what...).data(), sizeof(T));
        return value;
    }

    template <typename... What>
    std::string_view string(const What &...what) {
        const auto length = number<uint64_t>(what...);
        const auto text = take(length, what...);
        return {reinterpret_cast<const char *>(text.data()), text.size()};
    }

    void parse_preamble() {
        const auto magic = take(4, "the GGUF magic");
        if (std::memcmp(magic.data(), "GGUF", 4) != 0) {
            fail(
                "is not a GGUF file: it does not start with \"GGUF\"; give a model in this format, or, if it should be "
                "one, download it again");
        }
        header_.version = number<uint32_t>("the GGUF version");
        if (header_.version == 1) {
            fail("is GGUF version 1, which is no longer supported; convert the model again with a current llama.cpp");
        }
        if (header_.version != 0 && (header_.version & 0xffff) == 0) {
            fail("is a big-endian GGUF; convert the model again for little-endian machines");
        }
        if (header_.version != 2 && header_.version != 3) {
            fail("is GGUF version ", header_.version, "; this program reads versions 2 and 3");
        }
        n_tensors_ = number<uint64_t>("the number of tensors");
        n_kv_ = number<uint64_t>("the number of metadata keys");
        check_count(n_kv_, kLeastKeyValue, "metadata keys");
        check_count(n_tensors_, kLeastTensorInfo, "tensors");
        const uint64_t at_hand = bytes_.size() - pos_;
        header_.kv.reserve(std::min(n_kv_, at_hand / kLeastKeyValue));
        header_.tensors.reserve(std::min(n_tensors_, at_hand / kLeastTensorInfo));
    }

    void check_count(uint64_t count, uint64_t least, const char *what) const {
        if (count > left_in_file() / least) {
            fail_damaged("promises ", count, " ", what, ", more than a file of ", file_size_, " bytes can hold");
        }
    }

    void parse_key_value() {
        KeyValue kv;
        const std::string_view key = string("metadata key ", header_.kv.size());
        if (key.empty() || key.size() > kLongestKey || key.find('\0') != std::string_view::npos) {
            fail_damaged("metadata key ", header_.kv.size(), " has no valid name: ", quote(key), " of ", key.size(),
                         " bytes");
        }
        if (!keys_.insert(key).second) {
            fail_damaged("metadata key ", quote(key), " occurs twice");
        }
        kv.key = key;
        kv.type = number<uint32_t>("the type of key ", quote(key));
        const uint64_t begin = pos_;
        pass_value(ValueType{kv.type}, key);
        const auto value = bytes_.subspan(begin, pos_ - begin);
        kv.value.assign(value.begin(), value.end());
        header_.kv.push_back(std::move(kv));
    }

    void pass_value(ValueType type, std::string_view key) {
        if (type == ValueType::kArray) {
            pass_array(key);
        } else if (type == ValueType::kString) {
            pass_string(key);
        } else {
            take(fixed_size(type, key), "the value of key ", quote(key));
        }
    }

    void pass_array(std::string_view key) {
        const auto type = ValueType{number<uint32_t>("the element type of key ", quote(key))};
        const auto count = number<uint64_t>("the length of key ", quote(key));
        if (type == ValueType::kArray) {
            fail("metadata key ", quote(key), " is an array of arrays, which is not supported");
        }
        if (type == ValueType::kString) {
            if (count > left_in_file() / sizeof(uint64_t)) {
                fail_damaged("metadata key ", quote(key), " promises ", count, " strings, more than the file can hold");
            }
            for (uint64_t i = 0; i < count; ++i) {
                pass_string(key);
            }
            return;
        }
        const auto bytes = checked_mul(count, fixed_size(type, key));
        if (!bytes) {
            fail_damaged("metadata key ", quote(key), " promises ", count, " values, more than the file can hold");
        }
        take(*bytes, "the array of key ", quote(key));
    }

    // A token list has some hundred thousand strings: no message is prepared before one is needed.
    void pass_string(std::string_view key) {
        const uint64_t at_hand = bytes_.size() - pos_;
        if (at_hand >= sizeof(uint64_t)) {
            uint64_t length;
            std::memcpy(&length, bytes_.data() + pos_, sizeof(length));
            if (length <= at_hand - sizeof(uint64_t)) {
                pos_ += sizeof(uint64_t) + length;
                return;
            }
        }
        string("a string of key ", quote(key));
    }

    uint64_t fixed_size(ValueType type, std::string_view key) const {
        const uint64_t size = value_size(type);
        if (size == 0) {
            fail_damaged("metadata key ", quote(key), " has the unknown value type ", static_cast<uint32_t>(type));
        }
        return size;
    }

    void set_alignment() {
        const KeyValue *kv = header_.find("general.alignment");
        if (kv == nullptr) {
            return;
        }
        if (ValueType{kv->type} != ValueType::kUint32) {
            fail_damaged("metadata key 'general.alignment' has value type ", kv->type, " instead of uint32 (4)");
        }
        header_.alignment = *header_.integer(kv->key);
        if (!std::has_single_bit(header_.alignment)) {
            fail_damaged("general.alignment is ", header_.alignment, ", not a power of two");
        }
    }

    void parse_tensor_info() {
        TensorInfo info;
        const std::string_view name = string("the name of tensor ", header_.tensors.size());
        if (name.empty() || name.size() > kLongestTensorName || name.find('\0') != std::string_view::npos) {
            fail_damaged("tensor ", header_.tensors.size(), " has no valid name of 1 to ", kLongestTensorName,
                         " bytes: ", quote(name), " of ", name.size(), " bytes");
        }
        if (!names_.insert(name).second) {
            fail_damaged("tensor ", quote(name), " occurs twice");
        }
        info.name = name;
        info.n_dims = number<uint32_t>("the number of dimensions of tensor ", quote(name));
        if (info.n_dims < 1 || info.n_dims > info.ne.size()) {
            fail_damaged("tensor ", quote(name), " has ", info.n_dims, " dimensions, not 1 to 4");
        }
        for (uint32_t d = 0; d < info.n_dims; ++d) {
            info.ne[d] = number<uint64_t>("the shape of tensor ", quote(name));
        }
        info.type = number<uint32_t>("the type of tensor ", quote(name));
        info.bytes = tensor_bytes(info);
        info.offset = number<uint64_t>("the offset of tensor ", quote(name));
        if (info.offset % header_.alignment != 0) {
            fail_damaged("tensor ", quote(name), " has the data offset ", info.offset,
                         ", not a multiple of the alignment ", header_.alignment);
        }
        header_.tensors.push_back(std::move(info));
    }

    uint64_t tensor_bytes(const TensorInfo &info) const {
        const auto traits = type_traits(info.type);
        if (!traits) {
            fail("tensor ", quote(info.name), " has type ", info.type,
                 ", which is retired or unknown; a newer version of this program may know it");
        }
        uint64_t elements = 1;
        for (const uint64_t ne : info.ne) {
            const auto product = checked_mul(elements, ne);
            if (!product || *product >= std::numeric_limits<int64_t>::max()) {
                fail_damaged("tensor ", quote(info.name),
                             " has an impossible shape: its elements cannot be counted in 63 bits");
            }
            if (ne == 0) {
                fail_damaged("tensor ", quote(info.name), " has a dimension of 0");
            }
            elements = *product;
        }
        if (info.ne[0] % traits->block != 0) {
            fail_damaged("tensor ", quote(info.name), " of type ", traits->name, " has rows of ", info.ne[0],
                         " elements, not a multiple of the block of ", traits->block);
        }
        const auto bytes = checked_mul(elements / traits->block, traits->block_bytes);
        if (!bytes) {
            fail_damaged("tensor ", quote(info.name), " has an impossible shape: its size does not fit 64 bits");
        }
        return *bytes;
    }

    // Tensor offsets are stored relative to the data, which starts at the first aligned byte after the header.
    void place_tensors() {
        header_.data_offset = pos_;
        if (header_.tensors.empty()) {
            return;
        }
        const auto begin = checked_align(pos_, header_.alignment);
        if (!begin) {
            fail_damaged("the tensor data cannot start after byte ", pos_);
        }
        header_.data_offset = *begin;
        for (TensorInfo &info : header_.tensors) {
            const auto offset = checked_add(*begin, info.offset);
            if (!offset || !checked_add(*offset, info.bytes)) {
                fail_damaged("tensor ", quote(info.name), " has the data offset ", info.offset,
                             ", which is impossible");
            }
            info.offset = *offset;
        }
    }

    void check_inside_file() const {
        const TensorInfo *first = nullptr;
        uint64_t cut = 0;
        uint64_t end = 0;
        for (const TensorInfo &info : header_.tensors) {
            end = std::max(end, info.offset + info.bytes);
            if (info.offset + info.bytes > file_size_) {
                first = first == nullptr || info.offset < first->offset ? &info : first;
                ++cut;
            }
        }
        if (first != nullptr) {
            fail("the file is ", end - file_size_, " bytes too short: tensor ", quote(first->name), " needs ",
                 first->bytes, " bytes at offset ", first->offset, ", but the file ends at ", file_size_, " (",
                 std::min(first->bytes, first->offset + first->bytes - file_size_), " bytes of this tensor missing, ",
                 cut - 1, " further tensors cut); compare its size with that at its source, and download it again");
        }
    }

    void check_no_overlap() const {
        const std::vector<TensorInfo> &tensors = header_.tensors;
        std::vector<size_t> order(tensors.size());
        std::iota(order.begin(), order.end(), size_t{0});
        std::sort(order.begin(), order.end(),
                  [&](size_t a, size_t b) { return tensors[a].offset < tensors[b].offset; });
        for (size_t i = 1; i < order.size(); ++i) {
            const TensorInfo &before = tensors[order[i - 1]];
            const TensorInfo &after = tensors[order[i]];
            if (before.offset + before.bytes > after.offset) {
                fail_damaged("tensors ", quote(before.name), " and ", quote(after.name), " overlap at offset ",
                             after.offset);
            }
        }
    }

    std::span<const std::byte> bytes_;
    uint64_t file_size_;
    const std::string &path_;
    uint64_t pos_ = 0;
    uint64_t n_kv_ = 0;
    uint64_t n_tensors_ = 0;
    std::unordered_set<std::string_view> keys_;   // views into bytes_
    std::unordered_set<std::string_view> names_;  // views into bytes_
    Header header_;
};

}  // namespace

std::optional<Header> parse_header(std::span<const std::byte> bytes, uint64_t file_size, const std::string &path) {
    try {
        return Parser(bytes, file_size, path).parse();
    } catch (const Incomplete &) {
        return std::nullopt;
    }
}

}  // namespace bmoe::gguf
