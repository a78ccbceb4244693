#include "gguf/value_type.h"
#include "tests/fuzz/seeds.h"
#include "tests/gguf/model_fixtures.h"

namespace bmoe::fuzz {

std::vector<std::vector<std::byte>> seeds() {
    using namespace gguf;
    using namespace gguf::test;
    std::vector<std::vector<std::byte>> all;
    for (const GgufWriter &model :
         {moe_model(), merged_gate_up_model(), gateless_model(), chunked_model(), metadata(), GgufWriter()}) {
        all.push_back(model.bytes());
    }
    const Split parts = split(metadata(), moe_model().tensors, 2, "m");
    all.push_back(parts.shards[1].bytes());

    GgufWriter aligned = gateless_model();
    aligned.version = 2;
    aligned.alignment = 64;
    aligned.u32("general.alignment", 64).u16("split.count", 1);
    for (uint32_t type = 0; type <= 12; ++type) {
        const uint64_t size = value_size(ValueType{type});
        if (size == 0) continue;
        Bytes one;
        one.data.resize(size, std::byte{1});
        aligned.kv("value " + std::to_string(type), ValueType{type}, one);
        Bytes two = Bytes().number(type).number(uint64_t{2});
        two.data.resize(two.data.size() + 2 * size, std::byte{1});
        aligned.kv("array " + std::to_string(type), ValueType::kArray, two);
    }
    all.push_back(aligned.bytes());
    return all;
}

}  // namespace bmoe::fuzz
