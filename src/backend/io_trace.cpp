#include "backend/io_trace.h"

#include <utility>

#include "base/error.h"
#include "gguf/model_file.h"

namespace bmoe::backend {

void IoTrace::begin(const gguf::ModelFile &model) {
    file_.write("# io_trace v1\n");
    for (size_t shard = 0; shard < model.shards().size(); ++shard) {
        file_.write(cat("# shard=", shard, " file=", model.shards()[shard]->path(), '\n'));
    }
    for (size_t layer = 0; layer < model.expert_layers().size(); ++layer) {
        const auto &banks = model.expert_layers()[layer].banks;
        for (size_t bank = 0; bank < banks.size(); ++bank) {
            file_.write(cat("# layer=", layer, " bank=", bank, " tensor=", banks[bank].tensor, '\n'));
        }
    }
    file_.write("asked_us,started_us,done_us,priority,shard,offset,bytes,layer,expert,bank,result\n");
    write_out();
}

void IoTrace::on_read(const io::ReadRecord &record) {
    const std::scoped_lock lock(mutex_);
    rows_.push_back({name_of(record.job), record.job.offset, record.job.length, record.asked_ns, record.started_ns,
                     record.done_ns, record.priority != io::Priority::kDemand, record.ok});
}

void IoTrace::write_out() {
    std::vector<Row> rows;
    {
        const std::scoped_lock lock(mutex_);
        rows.swap(rows_);
    }
    for (const Row &row : rows) {
        file_.write(cat(time(row.asked_ns), ',', time(row.started_ns), ',', time(row.done_ns), ',',
                        row.speculative ? "speculative" : "demand", ',', row.slice.shard, ',', row.offset, ',',
                        row.length, ',', row.slice.layer, ',', row.slice.expert, ',', row.slice.bank, ',',
                        row.ok ? "ok" : "failed", '\n'));
    }
}

// Microseconds since the trace began; -1: not known.
std::string IoTrace::time(uint64_t ns) const {
    return ns < origin_ns_ ? "-1" : std::to_string((ns - origin_ns_) / 1000);
}

}  // namespace bmoe::backend
