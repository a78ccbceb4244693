// What a run writes down beside its text: progress lines, the CSV, traces of routing and of reads.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backend/io_trace.h"
#include "backend/route_recorder.h"
#include "base/output_file.h"
#include "cache/route_trace_writer.h"
#include "cli/command_line.h"
#include "engine/engine.h"
#include "engine/generation.h"
#include "telemetry/csv_log.h"

namespace bmoe::cli {

// Functions are called in their order; record() and finish_request() for each request. Must outlive the engine that it
// observes. Costs nothing where nothing is wanted. Where finish() is not reached, because of an error, the destructor completes the
// files. Not thread-safe.
class RunRecorder {
  public:
    // Makes the files. Throws bmoe::Error for one that cannot be made.
    explicit RunRecorder(const RecordOptions &options);
    ~RunRecorder();
    RunRecorder(const RunRecorder &) = delete;
    RunRecorder &operator=(const RunRecorder &) = delete;

    // Before the model is opened with these options.
    void observe(engine::Options &options);

    // The model is open. Throws bmoe::Error if it has nothing to trace.
    void begin(engine::Engine &engine, const CommandLine &command);

    // Watches a request that is about to be given to Conversation::generate with `stats`, both alive until finish_request().
    // What it calls so far it goes on to call. A request of which something is decoded is a turn.
    void record(engine::GenerationRequest &request, const engine::GenerationStats &stats);
    // After an error or an interrupt too; of no effect where none is watched.
    void finish_request();

    // Completes the files. What could not be written is an error line on stderr for each file; false then.
    bool finish();

  private:
    bool complete_files();
    OutputFile *open(const char *flag, const std::string &path);
    void on_prompt(size_t done);
    void begin_decoding();
    void on_step(const engine::Step &step);
    void begin_phase(const char *name, uint64_t most_tokens);
    void write_traces();
    void log_prompt();
    telemetry::CsvRow csv_row(uint32_t tokens, const engine::Interval &interval) const;
    void show_progress();

    const RecordOptions options_;
    std::vector<std::unique_ptr<OutputFile>> files_;
    std::unique_ptr<telemetry::CsvLog> csv_;
    std::unique_ptr<cache::RouteTraceWriter> routes_;
    std::unique_ptr<backend::RouteRecorder> route_recorder_;
    std::unique_ptr<backend::IoTrace> reads_;
    engine::Engine *engine_ = nullptr;
    bool is_incomplete_ = false;  // the files have their beginning only

    // Of the request at hand.
    uint32_t turn_ = 0;
    const engine::GenerationStats *stats_ = nullptr;
    size_t prompt_tokens_ = 0;      // of all of the prompt
    std::optional<size_t> reused_;  // of them, that the context held; known when the prompt begins
    uint32_t most_tokens_ = 0;
    bool is_decoding_ = false;
    bool prompt_is_logged_ = false;
    struct Phase;  // its prompt, or its decoding
    std::unique_ptr<Phase> phase_;
};

}  // namespace bmoe::cli
