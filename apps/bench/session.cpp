#include "bench/session.h"

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <set>

#include "base/error.h"
#include "bench/child.h"
#include "bench/entry_state.h"
#include "bench/memory_cgroup.h"
#include "bench/read_ahead.h"
#include "bench/temporary_folder.h"
#include "bmoe_version.h"

namespace bmoe::bench {

namespace {

using nlohmann::json;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

json request(const Cell &cell, const SessionOptions &options) {
    json settings = cell.settings;
    if (cell.replays) {
        settings["route-replay"] = options.trace;
    }
    return {{"model", options.model},
            {"prompt", options.prompt},
            {"prompt_skip", 0},
            {"prompt_tokens", cell.prompt_tokens},
            {"tokens", cell.tokens != 0 ? cell.tokens : options.tokens},
            {"threads", options.threads},
            {"settings", std::move(settings)}};
}

// What a cell's extra run has left for those that are recorded.
struct Learned {
    std::string profile;  // path
    json origin;          // how it was made, for the records
    std::string error;    // empty: there is a profile
};

class Session {
  public:
    Session(const std::vector<Cell> &cells, const SessionOptions &options, std::ostream &progress)
        : cells_(cells), options_(options), progress_(progress), out_(options.out, std::ios::app) {
        if (!out_) {
            throw Error(cat(options.out, ": cannot be written; give another file with --out"));
        }
        for (const Cell &cell : cells) {
            if (cell.replays && options.trace.empty()) {
                throw Error(cat("cell ", cell.name, " replays recorded routing: give a route trace with --trace"));
            }
            if (starts_warm(cell) && folder_ == nullptr) {
                folder_ = std::make_unique<TemporaryFolder>();
            }
        }
    }

    void run_all(std::vector<RunRecord> &records) {
        const auto start = Clock::now();
        const size_t total = cells_.size() * static_cast<size_t>(options_.pairs);
        for (int pair = 1; pair <= options_.pairs; ++pair) {
            for (size_t cell = 0; cell < cells_.size(); ++cell) {
                progress_ << "[" << records.size() + 1 << "/" << total << "] " << cells_[cell].name << ", pair " << pair
                          << std::endl;
                RunRecord record;
                record.cell = cell;
                record.pair = pair;
                run(cells_[cell], record);
                write(record);
                records.push_back(std::move(record));
                tell(records.back(), seconds_since(start), records.size(), total);
            }
        }
    }

  private:
    void run(const Cell &cell, RunRecord &record) {
        json asked = request(cell, options_);
        record.context = {{"cell", cell.name},
                          {"request", asked},
                          {"bmoe", kVersion},
                          {"llama_cpp", kLlamaCppCommit},
                          {"memory_limit_mib", nullptr},
                          {"memory_cgroup", "not asked for"},
                          {"cgroup_peak_bytes", nullptr},
                          {"profile", nullptr}};
        try {
            if (starts_warm(cell)) {
                give_profile(cell, asked, record.context);
            }
            run_in_cell(cell, asked, record);
        } catch (const Error &error) {
            record.error = error.what();
        }
    }

    // A copy, because a run replaces its profile when it ends.
    void give_profile(const Cell &cell, json &asked, json &context) {
        auto learned = learned_.find(cell.name);
        if (learned == learned_.end()) {
            learned = learned_.emplace(cell.name, learn(cell)).first;
        }
        context["profile"] = learned->second.origin;
        if (!learned->second.error.empty()) {
            throw Error(learned->second.error);
        }
        const std::string copy = folder_->file("run.profile");
        std::error_code failed;
        std::filesystem::copy_file(learned->second.profile, copy, std::filesystem::copy_options::overwrite_existing,
                                   failed);
        if (failed) {
            throw Error(cat("cannot copy the profile ", learned->second.profile, ": ", failed.message()));
        }
        asked["settings"]["profile"] = copy;
        context["request"] = asked;
    }

    // A run as the cell's others, but on the text that follows their prompt: a profile of the measured text itself would know
    // what no profile of earlier use can know.
    Learned learn(const Cell &cell) {
        progress_ << "    first a run that makes its profile, on the text after the prompt; it is not recorded"
                  << std::endl;
        Learned learned;
        learned.profile = folder_->file(cat("learned-", learned_.size(), ".profile"));
        json asked = request(cell, options_);
        asked["prompt_skip"] = cell.prompt_tokens;
        asked["settings"]["profile"] = learned.profile;
        learned.origin = {{"made_by", "a run of this cell before its first recorded one, on the text after the prompt"},
                          {"request", asked}};
        RunRecord record;
        try {
            run_in_cell(cell, asked, record);
        } catch (const Error &error) {
            record.error = error.what();
        }
        if (!record.ok()) {
            learned.error = cat("the run that makes the cell's profile failed: ", record.error);
        } else if (!std::filesystem::exists(learned.profile)) {
            learned.error =
                cat("the run that makes the cell's profile wrote none; its notes: ", record.figures.at("notes").dump());
        }
        return learned;
    }

    // Under the limits of the cell, and from the state of the machine that every run starts from. Throws bmoe::Error.
    void run_in_cell(const Cell &cell, const json &asked, RunRecord &record) {
        const std::unique_ptr<MemoryCgroup> cgroup = limit_memory(cell, record.context);
        std::unique_ptr<ReadAhead> read_ahead;
        if (cell.read_ahead_kib >= 0) {
            read_ahead = std::make_unique<ReadAhead>(options_.model, cell.read_ahead_kib);
        }
        const int kib = ReadAhead::current(options_.model);
        record.context["read_ahead_kib"] = kib >= 0 ? json(kib) : json();
        record.context["page_cache"] = drop_page_cache(options_.drop, options_.model_files);
        record.context["entry"] = entry_state();
        const auto start = Clock::now();
        const ChildOutput output = run_child({options_.program, "run-one", asked.dump()},
                                             cgroup != nullptr ? cgroup->procs_file() : "", interrupts_);
        record.context["process_seconds"] = seconds_since(start);
        judge(output, record);
        if (cgroup != nullptr && cgroup->peak_bytes()) {
            record.context["cgroup_peak_bytes"] = *cgroup->peak_bytes();
        }
    }

    std::unique_ptr<MemoryCgroup> limit_memory(const Cell &cell, json &context) {
        if (cell.memory_mib == 0) {
            return nullptr;
        }
        try {
            auto cgroup = std::make_unique<MemoryCgroup>(cell.memory_mib << 20);
            context["memory_limit_mib"] = cell.memory_mib;
            context["memory_cgroup"] = cat("v", cgroup->version());
            return cgroup;
        } catch (const Error &error) {
            context["memory_cgroup"] = error.what();
            if (told_.insert(error.what()).second) {
                progress_ << "note: " << error.what() << ": runs have no memory limit" << std::endl;
            }
            return nullptr;
        }
    }

    void write(const RunRecord &record) {
        out_ << record.to_json().dump(-1, ' ', false, json::error_handler_t::replace) << std::endl;
        if (!out_) {
            throw Error(cat(options_.out, ": cannot be written any more"));
        }
    }

    void tell(const RunRecord &record, double spent, size_t done, size_t total) {
        char text[128];
        if (record.ok()) {
            std::snprintf(text, sizeof(text), "    %.2f tok/s, first token after %.2f s",
                          record.figure("decode_tokens_per_second").value_or(-1),
                          record.figure("first_token_seconds").value_or(-1));
            progress_ << text;
        } else {
            progress_ << "    FAILED: " << record.error;
        }
        const double left = spent / static_cast<double>(done) * static_cast<double>(total - done);
        std::snprintf(text, sizeof(text), "; about %.0f %s left", left < 120 ? left : left / 60,
                      left < 120 ? "s" : "min");
        progress_ << text << std::endl;
    }

    const std::vector<Cell> &cells_;
    const SessionOptions &options_;
    std::ostream &progress_;
    std::ofstream out_;
    std::set<std::string> told_;
    std::unique_ptr<TemporaryFolder> folder_;  // of profiles, if a cell needs one
    std::map<std::string, Learned> learned_;   // by cell
    InterruptScope interrupts_;
};

}  // namespace

std::vector<RunRecord> run_session(const std::vector<Cell> &cells, const SessionOptions &options,
                                   std::ostream &progress, bool &interrupted) {
    std::vector<RunRecord> records;
    Session session(cells, options, progress);
    interrupted = false;
    try {
        session.run_all(records);
    } catch (const Interrupted &) {
        interrupted = true;
    }
    return records;
}

}  // namespace bmoe::bench
