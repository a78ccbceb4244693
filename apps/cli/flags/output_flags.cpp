#include "cli/flags/output_flags.h"

#include <array>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "cli/flags/checks.h"

namespace bmoe::cli {

namespace {

// Both exist and are one, or would be.
bool is_same_file(const std::string &a, const std::string &b) {
    namespace fs = std::filesystem;
    std::error_code error;
    if (a.empty() || b.empty()) {
        return false;
    }
    return fs::equivalent(a, b, error) ||
           fs::weakly_canonical(fs::absolute(a), error) == fs::weakly_canonical(fs::absolute(b), error);
}

// A shard of the model too.
bool is_gguf(const std::string &path) {
    char magic[4] = {};
    std::error_code error;
    return std::filesystem::is_regular_file(path, error) &&
           std::ifstream(path, std::ios::binary).read(magic, sizeof(magic)) &&
           std::string_view(magic, sizeof(magic)) == "GGUF";
}

void check_not_read(const char *flag, const std::string &file, const CommandLine &out) {
    if (is_gguf(file)) {
        throw CLI::ValidationError(cat(flag, ' ', file, " is a model, and would be replaced: give another name"));
    }
    for (const std::string &read : {out.engine.route_replay, out.engine.model, out.engine.profile, out.prompt_file}) {
        if (is_same_file(file, read)) {
            throw CLI::ValidationError(cat(flag, " names a file that is to be read: give it one of its own"));
        }
    }
}

}  // namespace

void OutputFlags::add_to(CLI::App &app, CommandLine &out) {
    RecordOptions &record = out.record;
    app.add_flag("--progress", record.progress, "A line on stderr about once a second: tokens/s, hits, reads, memory")
        ->group("Output");
    app.add_option("--csv", record.csv, "File for the configuration and a row of figures for each token")
        ->check(file_name())
        ->group("Output");
    CLI::Option *route_trace =
        app.add_option("--route-trace", record.route_trace,
                       "File for the experts of every token and layer, which --route-replay reads (slows the run down)")
            ->check(file_name())
            ->group("Output");
    app.add_option("--route-logits", record.route_logits,
                   "In that file also the router's N highest scores of every token and layer")
        ->check(CLI::Range(1, 1 << 16))
        ->needs(route_trace)
        ->group("Output");
    app.add_option("--io-trace", record.io_trace, "File with a row for each read of experts (slows the run down)")
        ->check(file_name())
        ->group("Output");
}

void OutputFlags::apply(CommandLine &out) {
    const RecordOptions &record = out.record;
    const std::array<std::pair<const char *, const std::string &>, 3> files = {
        {{"--csv", record.csv}, {"--route-trace", record.route_trace}, {"--io-trace", record.io_trace}}};
    for (size_t a = 0; a < files.size(); ++a) {
        check_not_read(files[a].first, files[a].second, out);
        for (size_t b = a + 1; b < files.size(); ++b) {
            if (is_same_file(files[a].second, files[b].second)) {
                throw CLI::ValidationError(std::string(files[a].first) + " and " + files[b].first +
                                           " name the same file: give each one of its own");
            }
        }
        if (a > 0 && !out.engine.stream && !files[a].second.empty()) {
            throw CLI::ValidationError(std::string(files[a].first) +
                                       " traces streamed experts: leave it out, or --moe-stream off");
        }
    }
}

}  // namespace bmoe::cli
