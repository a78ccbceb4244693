// Model shapes, visits and files for tests of the cache.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "base/mib.h"
#include "cache/geometry.h"
#include "cache/policy.h"
#include "tests/support/scratch.h"

namespace bmoe::cache::test {

inline Geometry uniform(uint32_t layers, uint32_t experts, uint32_t top_k, std::vector<uint64_t> slices) {
    Geometry geometry;
    geometry.layers.assign(layers, LayerGeometry{experts, top_k, std::move(slices)});
    return geometry;
}

// One token's routing.
inline void visit(Policy &policy, uint16_t layer, const std::vector<int32_t> &experts, Phase phase = Phase::kDecode) {
    policy.visit({layer, 1, static_cast<uint32_t>(experts.size()), experts, {}, phase});
}

// A folder removed at the end.
class ScratchFolder {
  public:
    std::string path() const { return scratch_.path().string(); }

    // Writes a file, with its folders; returns its path.
    std::string write(const std::string &name, const std::string &text) const {
        const std::filesystem::path path = this->path() + "/" + name;
        std::filesystem::create_directories(path.parent_path());
        std::ofstream out(path, std::ios::binary);
        out << text;
        out.close();
        if (!out) throw std::runtime_error("cannot write " + path.string());
        return path.string();
    }

  private:
    bmoe::test::Scratch scratch_;
};

}  // namespace bmoe::cache::test
