// A read of one slice: what every reader of experts asks the lanes for, and what becomes of the answer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "cache/expert_id.h"
#include "cache/slot_pool.h"
#include "gguf/model_file.h"
#include "io/read_pool.h"

namespace bmoe::backend {

// Which slice a read is of, by indices into the model's shards, expert layers and their banks.
struct SliceName {
    uint16_t shard = 0, layer = 0, expert = 0, bank = 0;
};
SliceName name_of(const io::ReadJob &job);  // made by slice_job()

// The read of a slice into `room`; `done` and `user` are left to the caller.
io::ReadJob slice_job(const gguf::ModelFile &model, cache::ExpertId id, size_t bank, std::byte *room);

// The read has succeeded: the slice is ready, and visible to threads that load its state with acquire order.
void publish_slice(cache::Slice &slice, const io::ReadJob &job);

// What went wrong with it, as a sentence.
std::string describe_slice_error(const gguf::ModelFile &model, cache::ExpertId id, size_t bank,
                                 const std::string &error);

}  // namespace bmoe::backend
