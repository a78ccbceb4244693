#include "backend/disk_probe.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <random>
#include <vector>

#include "backend/expert_store.h"
#include "backend/slice_read.h"
#include "base/clock.h"

namespace bmoe::backend {

namespace {

constexpr int kRounds = 5;
constexpr size_t kReads = 24;  // a round: a token's experts of a layer have about as many slices

// Bytes per second; 0 after a failure.
double run_round(ExpertStore &store, std::span<std::byte *const> rooms, std::mt19937 &random) {
    const auto &layers = store.model().expert_layers();
    std::vector<io::ReadJob> jobs(rooms.size());
    std::vector<io::ReadJob *> queue;
    std::atomic<bool> failed{false};
    uint64_t bytes = 0;
    for (size_t i = 0; i < jobs.size(); ++i) {
        const size_t layer = random() % layers.size();
        const size_t bank = random() % layers[layer].banks.size();
        const size_t expert = random() % layers[layer].n_expert;
        io::ReadJob &job = jobs[i];
        job = slice_job(store.model(), {static_cast<uint16_t>(layer), static_cast<uint16_t>(expert)}, bank, rooms[i]);
        job.user = &failed;
        job.done = [](io::ReadJob &done, const io::ReadStatus &status) {
            if (!status.ok()) {
                static_cast<std::atomic<bool> *>(done.user)->store(true);
            }
        };
        bytes += job.length;
        queue.push_back(&job);
    }
    const uint64_t start = now_ns();
    store.pool().submit(queue, io::Priority::kDemand);
    store.pool().drain();
    return failed ? 0 : static_cast<double>(bytes) * 1e9 / static_cast<double>(now_ns() - start);
}

}  // namespace

double measure_bandwidth(ExpertStore &store) {
    std::vector<std::byte *> rooms;
    for (size_t i = 0; i < kReads; ++i) {
        if (std::byte *room = store.staging().take(); room != nullptr) {
            rooms.push_back(room);
        }
    }
    std::mt19937 random(1);
    std::array<double, kRounds> rounds{};
    for (double &round : rounds) {
        round = run_round(store, rooms, random);
    }
    for (std::byte *room : rooms) {
        store.staging().give_back(room);
    }
    std::sort(rounds.begin(), rounds.end());
    return rounds.front() > 0 ? rounds[kRounds / 2] : 0;
}

}  // namespace bmoe::backend
