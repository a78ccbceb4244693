#include "tests/gguf/model_fixtures.h"

#include "gguf/shard_name.h"

namespace bmoe::gguf::test {

GgufWriter metadata(const std::string &name) {
    GgufWriter model;
    model.text("general.architecture", "testmoe")
        .text("general.name", name)
        .u32("testmoe.expert_used_count", 2)
        .string_array("tokenizer.ggml.tokens", {"<s>", "", "a longer token", "\xc3\xa4"})
        .i32_array("tokenizer.ggml.token_type", {1, 2, -3, 4});
    return model;
}

GgufWriter moe_model() {
    GgufWriter model = metadata();
    model.tensor("token_embd.weight", kQ8_0, {64, 5})
        .tensor("blk.0.ffn_up.weight", kF16, {64, 32})
        .tensor("blk.0.ffn_gate_shexp.weight", kF32, {64, 3, 4});
    model.tensor("blk.1.ffn_gate_inp.weight", kF32, {64, 4})
        .tensor("blk.1.ffn_gate_exps.weight", kQ8_0, {64, 32, 4})
        .tensor("blk.1.ffn_up_exps.weight", kQ8_0, {64, 32, 4})
        .tensor("blk.1.ffn_down_exps.weight", kF16, {32, 64, 4});
    model.tensor("blk.2.ffn_down_exps.weight", kQ6_K, {256, 3, 4})
        .tensor("blk.2.ffn_gate_exps.weight", kQ4_K, {256, 2, 4})
        .tensor("blk.2.ffn_up_exps.weight", kMxfp4, {256, 2, 4})
        .tensor("output_norm.weight", kF32, {3});
    return model;
}

GgufWriter merged_gate_up_model() {
    GgufWriter model = metadata();
    model.tensor("blk.0.ffn_gate_up_exps.weight", kMxfp4, {64, 8, 3})
        .tensor("blk.0.ffn_gate_up_exps.bias", kF32, {8, 3})
        .tensor("blk.0.ffn_down_exps.weight", kMxfp4, {64, 4, 3})
        .tensor("blk.0.ffn_down_exps.bias", kF32, {4, 3})
        .tensor("blk.0.ffn_down_exps.scale", kF32, {3})
        .tensor("blk.0.ffn_down_exps.input_scale", kF32, {1, 1, 3})
        .tensor("blk.0.ffn_norm_exps.weight", kF32, {64});
    return model;
}

GgufWriter gateless_model() {
    GgufWriter model = metadata();
    model.tensor("blk.10.ffn_down_exps.weight", kF16, {8, 16, 2})
        .tensor("blk.10.ffn_up_exps.weight", kF16, {16, 8, 2})
        .tensor("blk.9.ffn_down_exps.weight", kF16, {8, 16, 2})
        .tensor("blk.9.ffn_up_exps.weight", kF16, {16, 8, 2});
    return model;
}

GgufWriter chunked_model() {
    GgufWriter model = metadata();
    for (const std::string block : {"blk.0.", "blk.1."}) {
        for (const std::string projection : {"gate", "down", "up"}) {
            std::string stem = block;
            stem.append("ffn_").append(projection);
            model.tensor(stem + "_chexps.weight", kF16, {8, 4, 2});
            model.tensor(stem + "_exps.weight", kF16, {8, 16, 4});
        }
    }
    return model;
}

Split split(const GgufWriter &metadata_only, const std::vector<TensorSpec> &tensors, uint16_t count,
            const std::string &prefix) {
    Split result;
    for (uint16_t no = 0; no < count; ++no) {
        GgufWriter shard = no == 0 ? metadata_only : GgufWriter();
        shard.u16("split.no", no).u16("split.count", count).i32("split.tensors.count", int32_t(tensors.size()));
        const size_t begin = tensors.size() * no / count;
        const size_t end = tensors.size() * (no + 1U) / count;
        shard.tensors.assign(tensors.begin() + long(begin), tensors.begin() + long(end));
        result.shards.push_back(std::move(shard));
        result.names.push_back(ShardName{prefix, no + 1U, count}.sibling(no + 1U));
    }
    return result;
}

}  // namespace bmoe::gguf::test
