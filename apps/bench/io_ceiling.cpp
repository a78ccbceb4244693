#include "bench/io_ceiling.h"

#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>

#include "base/error.h"
#include "cache/arena.h"

namespace bmoe::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kGiB = 1024.0 * 1024.0 * 1024.0;

struct Place {
    const io::RandomAccessFile *file = nullptr;
    uint64_t offset = 0;
};

std::map<uint64_t, std::vector<Place>> slices_by_size(const gguf::ModelFile &model) {
    std::map<uint64_t, std::vector<Place>> sizes;
    for (const gguf::ExpertLayer &layer : model.expert_layers()) {
        for (const gguf::Bank &bank : layer.banks) {
            for (uint32_t expert = 0; expert < bank.n_expert; ++expert) {
                sizes[bank.bytes_per_expert].push_back(
                    {model.shards()[bank.shard].get(), bank.offset + expert * bank.bytes_per_expert});
            }
        }
    }
    return sizes;
}

double cpu_seconds() {
    rusage usage = {};
    ::getrusage(RUSAGE_SELF, &usage);
    const auto seconds = [](const timeval &time) {
        return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
    };
    return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

// Two batches of jobs, each with a room of its own: one is filled and queued while the other is read.
class Jobs {
  public:
    Jobs(std::byte *memory, uint64_t room_bytes, size_t batch) : batches_(2) {
        for (Batch &one : batches_) {
            one.owner = this;
            one.jobs.resize(batch);
            for (io::ReadJob &job : one.jobs) {
                job.dst = memory;
                memory += room_bytes;
                job.user = &one;
                job.done = [](io::ReadJob &done, const io::ReadStatus &status) {
                    auto &its = *static_cast<Batch *>(done.user);
                    its.owner->note_done(its, status);
                };
                one.list.push_back(&job);
            }
        }
    }

    // Throws bmoe::Error after a read that failed, when none is in flight any more.
    void run(io::ReadPool &pool, const std::vector<Place> &places, uint64_t bytes, const IoCeilingOptions &options,
             std::mt19937_64 &random) {
        const std::chrono::duration<double> seconds(options.seconds_per_cell);
        const Clock::time_point end = Clock::now() + std::chrono::duration_cast<Clock::duration>(seconds);
        for (size_t turn = 0; Clock::now() < end; ++turn) {
            Batch &batch = batches_[turn % 2];
            await(batch);
            batch.pending = batch.jobs.size();
            for (io::ReadJob &job : batch.jobs) {
                const Place &place = places[random() % places.size()];
                job.file = place.file;
                job.offset = place.offset;
                job.length = bytes;
            }
            pool.submit(batch.list, io::Priority::kDemand);
            if (options.burst > 0) await(batch);
        }
        pool.drain();
        const std::lock_guard lock(mutex_);
        if (!error_.empty()) throw Error(error_);
    }

  private:
    struct Batch {
        Jobs *owner = nullptr;
        std::vector<io::ReadJob> jobs;
        std::vector<io::ReadJob *> list;
        size_t pending = 0;
    };

    void note_done(Batch &batch, const io::ReadStatus &status) {
        const std::lock_guard lock(mutex_);
        if (error_.empty()) error_ = status.error;
        if (--batch.pending == 0) changed_.notify_one();
    }

    void await(Batch &batch) {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return batch.pending == 0; });
    }

    std::vector<Batch> batches_;
    std::mutex mutex_;
    std::condition_variable changed_;
    std::string error_;
};

// Jobs that are submitted at once.
size_t batch_size(const IoCeilingOptions &options, int in_flight) {
    return options.burst > 0 ? options.burst : static_cast<size_t>(in_flight) * 4;
}

struct Cell {
    IoCeilingRow row;
    const std::vector<Place> *places = nullptr;
    std::vector<double> rates;
    double cpu_s = 0;
    double gib = 0;

    void measure(cache::Arena &arena, uint64_t room_bytes, const IoCeilingOptions &options, std::mt19937_64 &random) {
        Jobs jobs(arena.data(), room_bytes, batch_size(options, row.in_flight));
        io::ReadPool pool(row.in_flight, row.engine);
        const double cpu_before = cpu_seconds();
        const Clock::time_point start = Clock::now();
        jobs.run(pool, *places, row.request_bytes, options, random);
        const double elapsed = std::chrono::duration<double>(Clock::now() - start).count();
        const double read = static_cast<double>(pool.counters().bytes) / kGiB;
        cpu_s += cpu_seconds() - cpu_before;
        gib += read;
        rates.push_back(read / elapsed);
    }

    IoCeilingRow result() {
        std::sort(rates.begin(), rates.end());
        row.gib_per_s_median = rates[rates.size() / 2];
        row.gib_per_s_min = rates.front();
        row.gib_per_s_max = rates.back();
        row.cpu_s_per_gib = cpu_s / gib;
        return row;
    }
};

}  // namespace

std::vector<IoCeilingRow> measure_io_ceiling(const gguf::ModelFile &model, const IoCeilingOptions &options) {
    const auto sizes = slices_by_size(model);
    if (sizes.empty()) throw Error(cat(model.shards().front()->path(), ": the model has no routed experts to read"));
    uint64_t block = 1;
    for (const auto &shard : model.shards()) block = std::max<uint64_t>(block, shard->block_size());

    std::vector<Cell> cells;
    int most = 1;
    for (const auto &[bytes, places] : sizes) {
        for (const int in_flight : options.in_flight) {
            most = std::max(most, in_flight);
            for (const io::ReadEngine engine : options.engines) {
                Cell cell;
                cell.row.engine = engine;
                cell.row.in_flight = in_flight;
                cell.row.request_bytes = bytes;
                cell.places = &places;
                cells.push_back(std::move(cell));
            }
        }
    }
    // A slice that straddles a block more than its length needs.
    const uint64_t room_bytes = (sizes.rbegin()->first + 2 * block - 1) / block * block;
    cache::Arena arena(room_bytes * batch_size(options, most) * 2);
    arena.prefault();

    std::mt19937_64 random(1);
    for (int round = 0; round < options.rounds; ++round) {
        for (Cell &cell : cells) cell.measure(arena, room_bytes, options, random);
    }
    std::vector<IoCeilingRow> rows;
    rows.reserve(cells.size());
    for (Cell &cell : cells) rows.push_back(cell.result());
    return rows;
}

void print_io_ceiling(const std::string &path, const IoCeilingOptions &options) {
    const auto model = gguf::ModelFile::open(path, io::DirectIo::kVerified);
    std::printf("%s: %s reads of single slices%s\n", path.c_str(), model->is_direct() ? "direct" : "buffered",
                options.burst == 0 ? "" : cat(", ", options.burst, " at a time").c_str());
    if (!model->io_note().empty()) {
        std::printf("%s\n", model->io_note().c_str());
    }
    std::printf("%8s %10s %12s   %s   %s\n", "engine", "in flight", "bytes", "GiB/s: median   min   max", "CPU s/GiB");
    for (const IoCeilingRow &row : measure_io_ceiling(*model, options)) {
        std::printf("%8s %10d %12llu %16.2f %6.2f %5.2f %11.3f\n",
                    row.engine == io::ReadEngine::kUring ? "uring" : "lanes", row.in_flight,
                    static_cast<unsigned long long>(row.request_bytes), row.gib_per_s_median, row.gib_per_s_min,
                    row.gib_per_s_max, row.cpu_s_per_gib);
    }
}

}  // namespace bmoe::bench
