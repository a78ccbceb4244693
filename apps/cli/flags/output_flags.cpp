#include "cli/flags/output_flags.h"

#include <array>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>

namespace bmoe::cli {

namespace {

// Both exist, and are one.
bool is_same_file(const std::string &a, const std::string &b) {
    std::error_code ignored;
    return !a.empty() && !b.empty() && std::filesystem::equivalent(a, b, ignored);
}

}  // namespace

void OutputFlags::add_to(CLI::App &app, CommandLine &out) {
    RecordOptions &record = out.record;
    app.add_flag("--progress", record.progress, "A line on stderr about once a second: tokens/s, hits, reads, memory")
        ->group("Output");
    app.add_option("--csv", record.csv, "File for the configuration and a row of figures for each token")
        ->group("Output");
    CLI::Option *route_trace =
        app.add_option("--route-trace", record.route_trace,
                       "File for the experts of every token and layer, which --route-replay reads (slows the run down)")
            ->group("Output");
    app.add_option("--route-logits", record.route_logits,
                   "In that file also the router's N highest scores of every token and layer")
        ->check(CLI::Range(1, 1 << 16))
        ->needs(route_trace)
        ->group("Output");
    app.add_option("--io-trace", record.io_trace, "File with a row for each read of experts (slows the run down)")
        ->group("Output");
}

void OutputFlags::apply(CommandLine &out) {
    const RecordOptions &record = out.record;
    const std::array<std::pair<const char *, const std::string &>, 3> files = {
        {{"--csv", record.csv}, {"--route-trace", record.route_trace}, {"--io-trace", record.io_trace}}};
    if (out.mode == Mode::kListModels) {
        for (const auto &[flag, file] : files) {
            if (!file.empty()) {
                throw CLI::ValidationError(std::string(flag) + " has no meaning with --list-models: it runs nothing");
            }
        }
        if (record.progress) {
            throw CLI::ValidationError("--progress has no meaning with --list-models: it runs nothing");
        }
    }
    for (size_t a = 0; a < files.size(); ++a) {
        if (is_same_file(files[a].second, out.engine.route_replay) || is_same_file(files[a].second, out.engine.model)) {
            throw CLI::ValidationError(std::string(files[a].first) +
                                       " names a file that is to be read: give it one of its own");
        }
        for (size_t b = a + 1; b < files.size(); ++b) {
            if (!files[a].second.empty() &&
                (files[a].second == files[b].second || is_same_file(files[a].second, files[b].second))) {
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
