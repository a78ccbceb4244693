// How often each expert of a model was used, kept in a file from one run to the next.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "cache/geometry.h"

namespace bmoe::cache {

// What a profile belongs to.
struct ProfileKey {
    uint64_t model = 0;             // fingerprint of the model's files
    std::vector<uint32_t> experts;  // by layer

    ProfileKey(uint64_t fingerprint, const Geometry &geometry);
};

struct ProfileRead {
    std::vector<float> frequencies;  // by expert, layer after layer, 0..1; empty if there are none to be had
    std::string problem;             // why not, a sentence; empty if there simply is no file
    bool replaceable = true;         // false: the file is something else, which write_profile() would destroy
};

// Reads the profile of `key`. Never throws bmoe::Error: what cannot be used is as good as missing.
ProfileRead read_profile(const std::string &path, const ProfileKey &key);

// Writes `frequencies`, one for each expert of `key`, in place of the file at `path`: by way of a temporary file beside it,
// so that whoever reads finds the old contents or the new ones. Threads and processes may write the same path at once; one
// of them wins. Throws bmoe::Error.
void write_profile(const std::string &path, const ProfileKey &key, std::span<const float> frequencies);

}  // namespace bmoe::cache
