#include "cli/list_models.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <map>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/mib.h"
#include "cache/memory_limits.h"
#include "cli/text_output.h"
#include "cli/utf8.h"
#include "gguf/ggml_types.h"
#include "gguf/model_file.h"
#include "gguf/shard_name.h"

namespace bmoe::cli {

namespace {

namespace fs = std::filesystem;

enum Column {
    kName,
    kArchitecture,
    kParameters,
    kSize,
    kExperts,
    kTypes,
    kExpertSize,
    kDenseSize,
    kStreams,
    kFits,
    kColumns
};
using Row = std::array<std::string, kColumns>;

constexpr std::array<bool, kColumns> kRightAligned = {false, false, true, true, true, false, true, true, false, false};

struct Entry {
    std::string name;
    std::optional<Row> row;
    std::string error;  // instead of a row
};

// What is found below a folder: models by name, each with one of its files, and folders that cannot be read.
struct Found {
    std::map<std::string, fs::path> models;
    std::vector<Entry> unreadable;
};

// Shards of one model have one name.
std::string model_name(const fs::path &file, const fs::path &root) {
    std::string name = file.lexically_relative(root).string();
    if (const auto shard = gguf::parse_shard_name(name)) {
        name = cat(shard->prefix, ".gguf (", shard->count, " shards)");
    }
    return name;
}

void find_models(const fs::path &folder, const fs::path &root, Found &found) {
    std::error_code failed;
    fs::directory_iterator at(folder, failed);
    for (; !failed && at != fs::directory_iterator(); at.increment(failed)) {
        std::error_code unknown;
        if (at->is_directory(unknown) && !at->is_symlink(unknown)) {
            find_models(at->path(), root, found);
        } else if (at->path().extension() == ".gguf") {
            found.models.emplace(model_name(at->path(), root), at->path());
        }
    }
    if (failed) {
        if (folder == root) {
            throw Error(cat("--list-models: cannot read the folder ", root.string(), ": ", failed.message()));
        }
        found.unreadable.push_back(
            {folder.lexically_relative(root).string(), {}, "cannot read the folder: " + failed.message()});
    }
}

std::string size_text(uint64_t bytes) {
    if (bytes < 10240 * kMiB) {
        return cat(mib_up(bytes), " MiB");
    }
    char text[32];
    std::snprintf(text, sizeof(text), "%.1f GiB", static_cast<double>(bytes) / static_cast<double>(kMiB << 10));
    return text;
}

std::string count_text(uint64_t count) {
    char text[32];
    const auto n = static_cast<double>(count);
    if (count >= 1000000000) {
        std::snprintf(text, sizeof(text), "%.1f B", n / 1e9);
    } else {
        std::snprintf(text, sizeof(text), "%.1f M", n / 1e6);
    }
    return text;
}

uint64_t parameters_of(const gguf::ModelFile &model) {
    uint64_t sum = 0;
    for (const gguf::Tensor &tensor : model.tensors()) {
        sum += tensor.info.ne[0] * tensor.info.ne[1] * tensor.info.ne[2] * tensor.info.ne[3];
    }
    return sum;
}

// Of the matrices, those of most bytes first.
std::string types_of(const gguf::ModelFile &model) {
    constexpr size_t kMost = 3;
    std::map<uint32_t, uint64_t> bytes;
    for (const gguf::Tensor &tensor : model.tensors()) {
        if (tensor.info.n_dims > 1) {
            bytes[tensor.info.type] += tensor.info.bytes;
        }
    }
    std::vector<std::pair<uint64_t, uint32_t>> sorted;
    sorted.reserve(bytes.size());
    for (const auto &[type, size] : bytes) {
        sorted.emplace_back(size, type);
    }
    std::sort(sorted.rbegin(), sorted.rend());
    std::string text;
    for (size_t i = 0; i < std::min(sorted.size(), kMost); ++i) {
        const auto traits = gguf::type_traits(sorted[i].second);
        text += cat(i > 0 ? " " : "", traits ? traits->name : "?");
    }
    return text + (sorted.size() > kMost ? " ..." : "");
}

std::string experts_of(const gguf::ModelFile &model) {
    uint32_t most = 0;
    for (const gguf::ExpertLayer &layer : model.expert_layers()) {
        most = std::max(most, layer.n_expert);
    }
    return most == 0 ? "-" : cat(most, "/", model.expert_used_count());
}

// Streaming, one layer's experts at once are the least that has to be in memory beside the dense weights.
std::string fits(const gguf::ModelFile &model, uint64_t available) {
    if (model.expert_bytes() + model.dense_bytes() <= available) {
        return "whole";
    }
    uint64_t layer_bytes = 0;
    for (const gguf::ExpertLayer &layer : model.expert_layers()) {
        layer_bytes = std::max(layer_bytes, layer.bytes_per_expert() * layer.n_expert);
    }
    return layer_bytes > 0 && model.dense_bytes() + layer_bytes <= available ? "streamed" : "no";
}

Entry describe(const std::string &name, const fs::path &file, uint64_t available) {
    try {
        const auto model = gguf::ModelFile::open(file.string(), io::DirectIo::kOff);
        Row row;
        row[kName] = name;
        row[kArchitecture] = model->architecture();
        row[kParameters] = count_text(parameters_of(*model));
        row[kSize] = size_text(model->file_bytes());
        row[kExperts] = experts_of(*model);
        row[kTypes] = types_of(*model);
        row[kExpertSize] = size_text(model->expert_bytes());
        row[kDenseSize] = size_text(model->dense_bytes());
        row[kStreams] = model->expert_layers().empty() ? "no" : "yes";
        row[kFits] = fits(*model, available);
        return {name, row, {}};
    } catch (const std::exception &error) {
        return {name, {}, error.what()};
    }
}

std::string to_text(const Row &row, const std::array<size_t, kColumns> &widths) {
    std::string line;
    for (size_t i = 0; i < kColumns; ++i) {
        const std::string padding(widths[i] - count_characters(row[i]), ' ');
        line += (i > 0 ? "  " : "") + (kRightAligned[i] ? padding + row[i] : row[i] + padding);
    }
    return line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
}

std::string table(const std::vector<Entry> &entries) {
    const Row head = {"model", "architecture",   "parameters",    "size",    "experts",
                      "types", "expert weights", "other weights", "streams", "fits"};
    std::array<size_t, kColumns> widths{};
    const auto widen = [&widths](const Row &row) {
        for (size_t i = 0; i < kColumns; ++i) {
            widths[i] = std::max(widths[i], count_characters(row[i]));
        }
    };
    widen(head);
    for (const Entry &entry : entries) {
        if (entry.row) {
            widen(*entry.row);
        }
    }
    std::string text = to_text(head, widths);
    for (const Entry &entry : entries) {
        text += entry.row ? to_text(*entry.row, widths) : cat(entry.name, "  error: ", entry.error, "\n");
    }
    return text;
}

}  // namespace

int list_models(const std::string &folder) {
    const cache::MemoryLimits limits = cache::read_memory_limits();
    Found found;
    find_models(folder, folder, found);
    std::vector<Entry> entries = std::move(found.unreadable);
    for (const auto &[name, file] : found.models) {
        entries.push_back(describe(name, file, limits.effective()));
    }
    TextOutput output;
    output.write(entries.empty() ? cat("no GGUF files below ", folder, "\n") : table(entries));
    output.write(cat("\nexperts: of a layer / used by a token. fits: whole, streamed or no, without the context; ",
                     limits.describe(), "\n"));
    if (output.failed()) {
        return output.report_failure();
    }
    return 0;
}

}  // namespace bmoe::cli
