#include "tests/support/chat_model.h"

#include <cstdint>
#include <cstring>
#include <fstream>
#include <sstream>
#include <stdexcept>

namespace bmoe::test {

namespace {

template <typename Number>
std::string bytes_of(Number number) {
    std::string bytes(sizeof(number), '\0');
    std::memcpy(bytes.data(), &number, sizeof(number));
    return bytes;
}

std::string with_length(const std::string &text) { return bytes_of(uint64_t{text.size()}) + text; }

}  // namespace

// A further entry is put before the others. Where tensors lie is counted from the end of the header, rounded up: it stays right
// if the entry is a multiple of the alignment.
void copy_with_chat_template(const std::string &from, const std::string &to, std::string source) {
    constexpr size_t kAlignment = 32;
    constexpr size_t kCountAt = 16;  // of entries
    constexpr size_t kEntriesAt = 24;
    constexpr uint32_t kString = 8;
    std::ifstream in(from, std::ios::binary);
    std::ostringstream read;
    read << in.rdbuf();
    const std::string file = read.str();
    if (file.size() < kEntriesAt || file.substr(0, 4) != "GGUF") {
        throw std::runtime_error(from + " is no GGUF");
    }
    uint64_t count = 0;
    std::memcpy(&count, file.data() + kCountAt, sizeof(count));
    const std::string key = with_length("tokenizer.chat_template") + bytes_of(kString);
    // A comment fills it up.
    const size_t size = key.size() + with_length(source + "{##}").size();
    source += "{#" + std::string((kAlignment - size % kAlignment) % kAlignment, ' ') + "#}";
    std::ofstream out(to, std::ios::binary);
    out << file.substr(0, kCountAt) << bytes_of(count + 1) << key << with_length(source) << file.substr(kEntriesAt);
    if (!out.flush()) {
        throw std::runtime_error("cannot write " + to);
    }
}

}  // namespace bmoe::test
