// A file with one row for each read of experts.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "backend/slice_read.h"
#include "base/clock.h"
#include "base/output_file.h"
#include "io/read_observer.h"

namespace bmoe::gguf {
class ModelFile;
}

namespace bmoe::backend {

// Watches a pool that reads by slice_job(). One thread calls everything but on_read(), which waits for no file: rows are kept
// until write_out().
class IoTrace : public io::ReadObserver {
  public:
    // Times in the file count from here. `file` must outlive it; what cannot be written is its error.
    explicit IoTrace(OutputFile &file) : file_(file) {}

    // Writes the header. Reads may have been observed before.
    void begin(const gguf::ModelFile &model);
    void write_out();

    void on_read(const io::ReadRecord &record) override;

  private:
    struct Row {
        SliceName slice;
        uint64_t offset = 0, length = 0;
        uint64_t asked_ns = 0, started_ns = 0, done_ns = 0;
        bool speculative = false;
        bool ok = false;
    };
    std::string time(uint64_t ns) const;

    OutputFile &file_;
    const uint64_t origin_ns_ = now_ns();
    std::mutex mutex_;  // guards what follows
    std::vector<Row> rows_;
};

}  // namespace bmoe::backend
