#include "cache/route_trace.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string_view>
#include <system_error>

#include "base/error.h"

namespace bmoe::cache {

namespace {

constexpr std::string_view kMagic = "# route_trace v1";
constexpr uint32_t kMostLayers = 4096;
constexpr uint32_t kMostExperts = 65535;

// Where a line is, for messages.
struct Line {
    const std::string &path;
    uint64_t number;
    std::string_view text;

    [[noreturn]] void fail(std::string_view what) const {
        throw Error(cat("route trace ", path, ", line ", number, ": ", what));
    }
};

template <typename T>
T parse(const Line &line, std::string_view text, std::string_view name) {
    T value{};
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || end != text.data() + text.size()) {
        line.fail(cat(name, " is not a valid number: '", text, "'"));
    }
    return value;
}

// The value of `name=value` in a header line.
std::optional<std::string_view> header_value(std::string_view text, std::string_view name) {
    const std::string key = cat(' ', name, '=');
    const size_t at = text.find(key);
    if (at == std::string_view::npos) return std::nullopt;
    const size_t begin = at + key.size();
    return text.substr(begin, text.find(' ', begin) - begin);
}

void read_header(const Line &line, RouteTrace &trace) {
    if (const auto model = header_value(line.text, "model")) {
        trace.model = std::string(*model);
        const auto layers = header_value(line.text, "n_layer");
        const auto experts = header_value(line.text, "n_expert");
        const auto used = header_value(line.text, "n_expert_used");
        if (!layers || !experts || !used) line.fail("n_layer, n_expert or n_expert_used is missing");
        const auto n_layer = parse<uint32_t>(line, *layers, "n_layer");
        trace.n_expert = parse<uint32_t>(line, *experts, "n_expert");
        trace.top_k = parse<uint32_t>(line, *used, "n_expert_used");
        if (n_layer == 0 || n_layer > kMostLayers) line.fail(cat("n_layer is not from 1 to ", kMostLayers));
        if (trace.n_expert == 0 || trace.n_expert > kMostExperts)
            line.fail(cat("n_expert is not from 1 to ", kMostExperts));
        if (trace.top_k == 0 || trace.top_k > trace.n_expert) line.fail("n_expert_used is not from 1 to n_expert");
        trace.expert_bytes.assign(n_layer, 0);
    } else if (const auto number = header_value(line.text, "layer")) {
        const auto layer = parse<uint32_t>(line, *number, "layer");
        const auto bytes = header_value(line.text, "expert_bytes");
        if (layer >= trace.expert_bytes.size()) line.fail(cat("layer ", layer, " is not one of n_layer"));
        if (!bytes) line.fail("expert_bytes is missing");
        trace.expert_bytes[layer] = parse<uint64_t>(line, *bytes, "expert_bytes");
        if (trace.expert_bytes[layer] == 0) line.fail("expert_bytes is 0");
    }
}

void check_header(const Line &line, const RouteTrace &trace) {
    if (trace.expert_bytes.empty()) line.fail("rows begin before the header with model= and n_layer=");
    for (size_t layer = 0; layer < trace.expert_bytes.size(); ++layer) {
        if (trace.expert_bytes[layer] == 0) line.fail(cat("the header gives no expert_bytes for layer ", layer));
    }
}

// turn, phase, step, layer, rank, expert, weight; columns behind them describe the recording device.
struct Record {
    uint32_t turn, phase, step, layer, rank;
    int32_t expert;
    float weight;
};

Record read_record(const Line &line) {
    constexpr size_t kColumns = 7;
    std::string_view columns[kColumns];
    std::string_view rest = line.text;
    for (size_t i = 0; i < kColumns; ++i) {
        const size_t comma = rest.find(',');
        columns[i] = rest.substr(0, comma);
        if (comma == std::string_view::npos && i + 1 < kColumns)
            line.fail(cat("has fewer than ", kColumns, " columns"));
        rest = comma == std::string_view::npos ? std::string_view{} : rest.substr(comma + 1);
    }
    return {parse<uint32_t>(line, columns[0], "turn"),          parse<uint32_t>(line, columns[1], "phase"),
            parse<uint32_t>(line, columns[2], "step"),          parse<uint32_t>(line, columns[3], "layer"),
            parse<uint32_t>(line, columns[4], "rank"),          parse<int32_t>(line, columns[5], "expert"),
            parse<float>(line, columns[6], "the router weight")};
}

}  // namespace

Geometry RouteTrace::geometry() const {
    Geometry geometry;
    for (uint64_t bytes : expert_bytes) geometry.layers.push_back({n_expert, top_k, {bytes}});
    return geometry;
}

uint32_t RouteTrace::prompt_tokens() const {
    std::vector<uint32_t> tokens(expert_bytes.size(), 0);
    for (const RouteRow &row : rows) tokens[row.layer] += row.phase == Phase::kPrefill ? 1 : 0;
    return tokens.empty() ? 0 : *std::max_element(tokens.begin(), tokens.end());
}

RouteTrace read_route_trace(const std::string &path) {
    std::error_code unknown;
    if (std::filesystem::is_directory(path, unknown)) {
        throw Error(cat("route trace ", path, ": is a folder; give the file that --route-trace wrote"));
    }
    std::ifstream file(path);
    if (!file) throw Error(cat("route trace ", path, ": cannot be opened; check the path"));
    RouteTrace trace;
    // Not a line at once: a file that is something else may have one without end.
    std::string text(kMagic.size(), '\0');
    file.read(text.data(), static_cast<std::streamsize>(text.size()));
    uint64_t number = 1;
    if (text != kMagic || (std::getline(file, text) && !text.empty() && text != "\r")) {
        Line{path, number, text}.fail(cat("is not '", kMagic, "': this is not a route trace"));
    }
    std::optional<Record> previous;
    while (std::getline(file, text)) {
        if (!text.empty() && text.back() == '\r') text.pop_back();
        const Line line{path, ++number, text};
        if (text.empty()) continue;
        if (text.front() == '#') {
            read_header(line, trace);
            continue;
        }
        if (!previous && text.starts_with("turn,")) continue;  // names of the columns
        const Record record = read_record(line);
        if (!previous) check_header(line, trace);
        if (record.layer >= trace.expert_bytes.size()) line.fail(cat("layer ", record.layer, " is not one of n_layer"));
        if (record.expert < 0 || static_cast<uint32_t>(record.expert) >= trace.n_expert) {
            line.fail(cat("expert ", record.expert, " is not one of n_expert"));
        }
        if (record.phase > 1) line.fail(cat("phase is ", record.phase, ", not 0 (prefill) or 1 (decode)"));
        const bool same_row = previous && previous->turn == record.turn && previous->phase == record.phase &&
                              previous->step == record.step && previous->layer == record.layer;
        if (!same_row)
            trace.rows.push_back({record.layer, record.phase == 0 ? Phase::kPrefill : Phase::kDecode, {}, {}});
        RouteRow &row = trace.rows.back();
        if (record.rank != row.experts.size())
            line.fail(cat("rank is ", record.rank, ", expected ", row.experts.size()));
        if (record.rank >= trace.top_k) line.fail("a token has more experts than n_expert_used");
        row.experts.push_back(record.expert);
        row.weights.push_back(record.weight);
        previous = record;
    }
    if (file.bad())
        throw Error(cat("route trace ", path, ": reading stopped after line ", number, " with an I/O error"));
    if (!previous) throw Error(cat("route trace ", path, ": has no rows of routing"));
    return trace;
}

}  // namespace bmoe::cache
