#include "backend/slice_read.h"

#include "base/error.h"

namespace bmoe::backend {

SliceName name_of(const io::ReadJob &job) {
    const auto part = [&](int at) { return static_cast<uint16_t>(job.tag >> (16 * at)); };
    return {part(3), part(2), part(1), part(0)};
}

io::ReadJob slice_job(const gguf::ModelFile &model, cache::ExpertId id, size_t bank, std::byte *room) {
    const gguf::Bank &source = model.expert_layers()[id.layer].banks[bank];
    io::ReadJob job;
    job.file = model.shards()[source.shard].get();
    job.offset = source.offset + id.expert * source.bytes_per_expert;
    job.length = source.bytes_per_expert;
    job.dst = room;
    job.tag = uint64_t{source.shard} << 48 | uint64_t{id.layer} << 32 | uint64_t{id.expert} << 16 | uint64_t{bank};
    return job;
}

void publish_slice(cache::Slice &slice, const io::ReadJob &job) {
    slice.data = slice.room + job.file->span(job.offset, job.length).lead;
    slice.state.store(cache::SliceState::kReady, std::memory_order_release);
}

std::string describe_slice_error(const gguf::ModelFile &model, cache::ExpertId id, size_t bank,
                                 const std::string &error) {
    const gguf::Bank &source = model.expert_layers()[id.layer].banks[bank];
    return cat("cannot read expert ", id.expert, " of tensor ", source.tensor, " (shard ", source.shard + 1, " of ",
               model.shards().size(), ", offset ", source.offset + id.expert * source.bytes_per_expert, ", ",
               source.bytes_per_expert, " bytes): ", error);
}

}  // namespace bmoe::backend
