#include "gguf/expert_layers.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <map>
#include <optional>
#include <string_view>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "gguf/damaged.h"
#include "gguf/quote.h"

namespace bmoe::gguf {
namespace {

constexpr std::array<std::string_view, 2> kFamilies = {"exps", "chexps"};

struct BankName {
    uint32_t block = 0;
    size_t family = 0;  // index into kFamilies
    std::string_view projection;
};

bool take_prefix(std::string_view &text, std::string_view prefix) {
    if (!text.starts_with(prefix)) {
        return false;
    }
    text.remove_prefix(prefix.size());
    return true;
}

bool take_suffix(std::string_view &text, std::string_view suffix) {
    if (!text.ends_with(suffix)) {
        return false;
    }
    text.remove_suffix(suffix.size());
    return true;
}

std::optional<BankName> parse_bank_name(std::string_view name) {
    BankName parsed;
    if (!take_prefix(name, "blk.")) {
        return std::nullopt;
    }
    const auto [end, failed] = std::from_chars(name.data(), name.data() + name.size(), parsed.block);
    if (failed != std::errc{}) {
        return std::nullopt;
    }
    name.remove_prefix(static_cast<size_t>(end - name.data()));
    if (!take_prefix(name, ".ffn_") || !take_suffix(name, ".weight")) {
        return std::nullopt;
    }
    for (; parsed.family < kFamilies.size(); ++parsed.family) {
        std::string_view rest = name;
        if (take_suffix(rest, kFamilies[parsed.family]) && take_suffix(rest, "_") && !rest.empty()) {
            parsed.projection = rest;
            return parsed;
        }
    }
    return std::nullopt;
}

}  // namespace

uint64_t ExpertLayer::bytes_per_expert() const {
    uint64_t sum = 0;
    for (const Bank &bank : banks) {
        sum += bank.bytes_per_expert;
    }
    return sum;
}

std::vector<ExpertLayer> find_expert_layers(const std::vector<Tensor> &tensors, const std::string &path) {
    std::map<std::pair<uint32_t, size_t>, ExpertLayer> layers;
    for (const Tensor &tensor : tensors) {
        const TensorInfo &info = tensor.info;
        const auto name = parse_bank_name(info.name);
        if (!name || info.n_dims != 3) {
            continue;
        }
        if (info.ne[2] > std::numeric_limits<uint32_t>::max()) {
            throw Error(cat(path, ": tensor ", quote(info.name), " claims ", info.ne[2], " experts", kDamaged));
        }
        const auto n_expert = static_cast<uint32_t>(info.ne[2]);
        ExpertLayer &layer = layers[{name->block, name->family}];
        if (layer.banks.empty()) {
            layer.block = name->block;
            layer.family = kFamilies[name->family];
            layer.n_expert = n_expert;
        } else if (layer.n_expert != n_expert) {
            throw Error(cat(path, ": tensors ", quote(layer.banks.front().tensor), " and ", quote(info.name), " hold ",
                            layer.n_expert, " and ", n_expert, " experts, but belong to one layer", kDamaged));
        }
        Bank bank;
        bank.tensor = info.name;
        bank.projection = name->projection;
        bank.shard = tensor.shard;
        bank.offset = info.offset;
        bank.bytes_per_expert = info.bytes / n_expert;
        bank.n_expert = n_expert;
        bank.type = info.type;
        layer.banks.push_back(std::move(bank));
    }

    std::vector<ExpertLayer> sorted;
    sorted.reserve(layers.size());
    for (auto &[place, layer] : layers) {
        std::sort(layer.banks.begin(), layer.banks.end(), [](const Bank &a, const Bank &b) {
            return std::tie(a.shard, a.offset) < std::tie(b.shard, b.offset);
        });
        sorted.push_back(std::move(layer));
    }
    return sorted;
}

}  // namespace bmoe::gguf
