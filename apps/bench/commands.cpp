#include "bench/commands.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <iostream>
#include <map>

#include "base/error.h"
#include "bench/cells.h"
#include "bench/io_ceiling.h"
#include "bench/report.h"
#include "bench/run_one.h"
#include "bench/session.h"
#include "cache/route_trace.h"
#include "engine/thread_count.h"
#include "gguf/model_file.h"

namespace bmoe::bench {

namespace {

const std::map<std::string, DropCache> kDropCache = {
    {"all", DropCache::kAll}, {"model", DropCache::kFiles}, {"none", DropCache::kNone}};

void add_session_options(CLI::App &command, SessionOptions &options) {
    command.add_option("-m,--model", options.model, "GGUF file, or any shard of a split one")->required();
    command.add_option("--pairs", options.pairs, "Runs of each cell")
        ->capture_default_str()
        ->check(CLI::Range(1, 1000));
    command.add_option("--tokens", options.tokens, "Tokens to generate where the cell does not say")
        ->capture_default_str()
        ->check(CLI::Range(2, 1 << 20));
    command.add_option("-t,--threads", options.threads, "Compute threads")
        ->capture_default_str()
        ->check(CLI::Range(1, engine::usable_processors()));
    command.add_option("--prompt", options.prompt, "Text that prompts are cut from")->capture_default_str();
    command.add_option("--trace", options.trace, "Route trace (CSV) for cells that replay one");
    command.add_option("--out", options.out, "File that the raw results are appended to, a line of JSON for each run")
        ->capture_default_str();
    command.add_option("--drop-cache", options.drop, "Before each run drop what is cached of: all, model, none")
        ->transform(CLI::CheckedTransformer(kDropCache))
        ->default_str("all");
}

int list_cells() {
    std::vector<std::vector<std::string>> rows = {{"cell", "memory MiB", "prompt", "settings"}};
    for (const Cell &cell : all_cells()) {
        std::string settings;
        for (const auto &[name, value] : cell.settings) {
            settings += cat(settings.empty() ? "" : " ", name, "=", value);
        }
        if (cell.read_ahead_kib >= 0) {
            settings += cat(" read-ahead=", cell.read_ahead_kib);
        }
        rows.push_back({cell.name, cell.memory_mib != 0 ? cat(cell.memory_mib) : "-", cat(cell.prompt_tokens),
                        settings + (cell.replays ? " route-replay" : "")});
    }
    std::cout << format_table(rows);
    return 0;
}

// The cells that decode along a trace get a prompt as long as the recorded one, whose routing it takes.
std::vector<Cell> with_recorded_prompts(std::vector<Cell> cells, const std::string &trace) {
    const auto replays = [](const Cell &cell) { return cell.replays; };
    if (trace.empty() || std::none_of(cells.begin(), cells.end(), replays)) {
        return cells;
    }
    const uint32_t recorded = cache::read_route_trace(trace).prompt_tokens();
    for (Cell &cell : cells) {
        cell.prompt_tokens = cell.replays && recorded > 0 ? recorded : cell.prompt_tokens;
    }
    return cells;
}

int run_cells(const std::vector<Cell> &wanted, SessionOptions &options) {
    const std::vector<Cell> cells = with_recorded_prompts(wanted, options.trace);
    const auto model = gguf::ModelFile::open(options.model, io::DirectIo::kOff);
    for (const auto &shard : model->shards()) {
        options.model_files.push_back(shard->path());
    }
    bool interrupted = false;
    const std::vector<RunRecord> records = run_session(cells, options, std::cerr, interrupted);
    const std::string ratios = ratio_table(cells, records);
    std::cout << median_table(cells, records) << (ratios.empty() ? "" : "\n") << ratios;
    if (interrupted) {
        std::cout << "\ninterrupted: " << records.size() << " runs are complete\n";
        return 130;
    }
    const bool all_ok =
        std::all_of(records.begin(), records.end(), [](const RunRecord &record) { return record.ok(); });
    return all_ok ? 0 : 1;
}

}  // namespace

int run_command_line(int argc, char **argv) {
    CLI::App app("Measures bmoe and llama.cpp: named cells in turn, each run a fresh process.", "bmoe-bench");
    app.require_subcommand(1);
    app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);  // subcommands inherit it
    SessionOptions options;
    options.program = std::filesystem::read_symlink("/proc/self/exe").string();
    options.prompt = BMOE_DEFAULT_PROMPT;
    std::string globs = "decode-6g-auto";
    std::string names[2];
    std::string request;

    CLI::App *list = app.add_subcommand("list", "Show all cells");
    CLI::App *run = app.add_subcommand("run", "Run cells in turn; tables of medians, and of ratios to the first cell");
    add_session_options(*run, options);
    run->add_option("--cells", globs, "Names of cells, or globs in quotes, separated by commas")->capture_default_str();
    CLI::App *compare = app.add_subcommand("compare", "Run two cells in turn and compare them pair by pair");
    add_session_options(*compare, options);
    compare->add_option("A", names[0], "A cell")->required();
    compare->add_option("B", names[1], "Another, or the same for the noise of the machine")->required();
    CLI::App *io =
        app.add_subcommand("io", "What the disk delivers for reads of the model's slices, by engine and depth");
    IoCeilingOptions io_options;
    io->add_option("MODEL", request, "GGUF file, or any shard of a split one")->required();
    io->add_option("--rounds", io_options.rounds, "Rounds of half a second per cell")
        ->capture_default_str()
        ->check(CLI::Range(1, 1000));
    io->add_option("--burst", io_options.burst,
                   "Reads queued at a time, the next when all are there, as a layer's misses; 0: without end")
        ->capture_default_str()
        ->check(CLI::Range(0, 4096));
    CLI::App *one = app.add_subcommand("run-one", "One run, in this process")->group("");
    one->add_option("REQUEST", request)->required();

    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError &error) {
        return app.exit(error) == 0 ? 0 : 2;
    }
    if (one->parsed()) {
        run_one(request);
        return 0;
    }
    if (io->parsed()) {
        print_io_ceiling(request, io_options);
        return 0;
    }
    if (list->parsed()) {
        return list_cells();
    }
    if (compare->parsed()) {
        return run_cells({find_cell(all_cells(), names[0]), find_cell(all_cells(), names[1])}, options);
    }
    return run_cells(select_cells(all_cells(), globs), options);
}

}  // namespace bmoe::bench
