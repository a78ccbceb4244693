#include "tests/backend/small_experts.h"

#include <algorithm>
#include <fstream>
#include <numeric>
#include <span>

#include "backend/ggml_device.h"
#include "ggml-cpu.h"
#include "gguf/shards.h"
#include "tests/gguf/model_fixtures.h"

namespace bmoe::backend::test {

namespace {

constexpr const char *kProjections[] = {"gate", "up", "down"};

std::string tensor_name(const char *projection, uint32_t layer) {
    return "blk." + std::to_string(layer) + ".ffn_" + projection + "_exps.weight";
}

std::vector<int64_t> dims(const Shape &shape, const std::string &projection) {
    const bool down = projection == "down";
    return {down ? shape.n_ff : shape.n_embd, down ? shape.n_embd : shape.n_ff, shape.n_expert};
}

// Replaces the writer's arbitrary bytes by weights that are numbers.
void fill_with_weights(const std::string &path, const gguf::ModelFile &file, ggml_type type) {
    std::fstream out(path, std::ios::binary | std::ios::in | std::ios::out);
    std::mt19937 random(7);
    std::normal_distribution<float> normal(0, 0.2F);
    for (const gguf::Tensor &tensor : file.tensors()) {
        const auto n = static_cast<int64_t>(tensor.info.ne[0]);
        const auto rows = static_cast<int64_t>(tensor.info.ne[1] * tensor.info.ne[2]);
        std::vector<float> values(n * rows);
        std::generate(values.begin(), values.end(), [&] { return normal(random); });
        std::vector<char> bytes(tensor.info.bytes);
        ggml_quantize_chunk(type, values.data(), bytes.data(), 0, rows, n, nullptr);
        out.seekp(static_cast<std::streamoff>(tensor.info.offset));
        out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    }
}

// In one split, or from each of `firsts` to the next in one of its own.
ggml_status compute_streamed(SplitExecutor &executor, ggml_context *context, ggml_cgraph *graph,
                             std::span<ggml_tensor *const> firsts) {
    if (firsts.empty()) {
        return executor.compute(graph);
    }
    ggml_status status = GGML_STATUS_SUCCESS;
    ggml_cgraph *split = nullptr;
    for (int i = 0; i < ggml_graph_n_nodes(graph) && status == GGML_STATUS_SUCCESS; ++i) {
        ggml_tensor *node = ggml_graph_node(graph, i);
        if (split == nullptr) {
            split = ggml_new_graph(context);
        } else if (std::find(firsts.begin(), firsts.end(), node) != firsts.end()) {
            status = executor.compute(split);
            split = ggml_new_graph(context);
        }
        ggml_graph_add_node(split, node);
    }
    return status == GGML_STATUS_SUCCESS ? executor.compute(split) : status;
}

}  // namespace

SmallExperts::SmallExperts(const Shape &shape, const StoreOptions &options, const WrapFile &wrap)
    : shape_(shape), cpu_(ggml_backend_cpu_init()) {
    ggml_backend_cpu_set_n_threads(cpu_, 1);
    gguf::test::GgufWriter writer;
    writer.text("general.architecture", "test");
    writer.u32("test.expert_count", shape.n_expert);
    writer.u32("test.expert_used_count", shape.top_k);
    for (uint32_t layer = 0; layer < shape.n_layers; ++layer) {
        for (const char *projection : kProjections) {
            const auto ne = dims(shape, projection);
            writer.tensor(tensor_name(projection, layer), shape.type, {ne.begin(), ne.end()});
        }
    }
    const std::string path = scratch_.file("experts.gguf");
    writer.write(path);
    fill_with_weights(path, *gguf::ModelFile::open(path, io::DirectIo::kOff), shape.type);

    std::vector<gguf::Shard> shards = gguf::open_shards(path, io::DirectIo::kVerified);
    if (wrap) {
        for (gguf::Shard &shard : shards) {
            shard.file = wrap(std::move(shard.file));
        }
    }
    file_ = std::make_unique<gguf::ModelFile>(std::move(shards));
    store_ = std::make_unique<ExpertStore>(*file_, options);

    if (options.lookahead != 0) {
        make_routers();
    }
    const size_t memory = 64 * ggml_tensor_overhead();
    for (ggml_context **context : {&streamed_, &resident_}) {
        *context = ggml_init({memory, nullptr, true});
        for (uint32_t layer = 0; layer < shape.n_layers; ++layer) {
            for (const char *projection : kProjections) {
                const auto ne = dims(shape, projection);
                ggml_tensor *tensor = ggml_new_tensor_3d(*context, shape.type, ne[0], ne[1], ne[2]);
                ggml_set_name(tensor, tensor_name(projection, layer).c_str());
            }
        }
    }
    {
        const LoadScope scope(*store_);
        streamed_buffer_ = ggml_backend_alloc_ctx_tensors_from_buft(streamed_, expert_buffer_type());
    }
    resident_buffer_ = ggml_backend_alloc_ctx_tensors_from_buft(resident_, ggml_backend_cpu_buffer_type());
    std::ifstream in(path, std::ios::binary);
    for (const gguf::Tensor &tensor : file_->tensors()) {
        in.seekg(static_cast<std::streamoff>(tensor.info.offset));
        in.read(static_cast<char *>(ggml_get_tensor(resident_, tensor.info.name.c_str())->data),
                static_cast<std::streamsize>(tensor.info.bytes));
    }
}

void SmallExperts::make_routers() {
    routers_ = ggml_init({(2 * shape_.n_layers + 2) * ggml_tensor_overhead(), nullptr, true});
    ggml_tensor *input = ggml_new_tensor_1d(routers_, GGML_TYPE_F32, shape_.n_embd);
    std::vector<ggml_tensor *> nodes;
    for (uint32_t layer = 0; layer < shape_.n_layers; ++layer) {
        ggml_tensor *router = ggml_new_tensor_2d(routers_, GGML_TYPE_F32, shape_.n_embd, shape_.n_expert);
        ggml_set_name(router, ("blk." + std::to_string(layer) + ".ffn_gate_inp.weight").c_str());
        nodes.push_back(ggml_mul_mat(routers_, router, input));
    }
    routers_buffer_ = ggml_backend_alloc_ctx_tensors_from_buft(routers_, ggml_backend_cpu_buffer_type());
    std::mt19937 random(23);
    std::normal_distribution<float> normal;
    for (ggml_tensor *node : nodes) {
        auto *values = static_cast<float *>(node->src[0]->data);
        std::generate(values, values + ggml_nelements(node->src[0]), [&] { return normal(random); });
        store_->look_at_node(node);
    }
}

SmallExperts::~SmallExperts() {
    store_.reset();  // before the routers, which its lookahead uses
    ggml_backend_buffer_free(routers_buffer_);
    ggml_free(routers_);
    ggml_backend_buffer_free(streamed_buffer_);
    ggml_backend_buffer_free(resident_buffer_);
    ggml_free(streamed_);
    ggml_free(resident_);
    ggml_backend_free(cpu_);
}

ggml_tensor *SmallExperts::weight(ggml_context *context, const char *projection, uint32_t layer) const {
    return ggml_get_tensor(context, tensor_name(projection, layer).c_str());
}

SmallExperts::Visit SmallExperts::visit(SplitExecutor &executor, uint32_t layer, uint32_t n_tokens,
                                        std::mt19937 &random) {
    std::vector<int32_t> routing;
    std::vector<int32_t> experts(shape_.n_expert);
    std::iota(experts.begin(), experts.end(), 0);
    for (uint32_t token = 0; token < n_tokens; ++token) {
        std::shuffle(experts.begin(), experts.end(), random);
        routing.insert(routing.end(), experts.begin(), experts.begin() + shape_.top_k);
    }
    std::normal_distribution<float> normal;
    std::vector<float> activations(shape_.n_embd * n_tokens);
    std::generate(activations.begin(), activations.end(), [&] { return normal(random); });
    std::vector<float> router(shape_.top_k * n_tokens, 1.0F / static_cast<float>(shape_.top_k));

    Visit result;
    for (const bool stream : {false, true}) {
        ggml_context *weights = stream ? streamed_ : resident_;
        ggml_context *context = ggml_init({32 * ggml_tensor_overhead() + 4 * ggml_graph_overhead(), nullptr, true});
        ggml_tensor *x = ggml_new_tensor_3d(context, GGML_TYPE_F32, shape_.n_embd, 1, n_tokens);
        ggml_tensor *ids = ggml_new_tensor_2d(context, GGML_TYPE_I32, shape_.top_k, n_tokens);
        ggml_tensor *w = ggml_new_tensor_3d(context, GGML_TYPE_F32, 1, shape_.top_k, n_tokens);
        ggml_tensor *gate = ggml_mul_mat_id(context, weight(weights, "gate", layer), x, ids);
        ggml_tensor *up = ggml_mul_mat_id(context, weight(weights, "up", layer), x, ids);
        ggml_tensor *hidden = ggml_swiglu_split(context, gate, up);
        ggml_tensor *down = ggml_mul_mat_id(context, weight(weights, "down", layer), hidden, ids);
        ggml_tensor *out = ggml_mul(context, down, w);
        ggml_cgraph *graph = ggml_new_graph(context);
        ggml_build_forward_expand(graph, out);
        ggml_backend_buffer_t buffer =
            ggml_backend_alloc_ctx_tensors_from_buft(context, ggml_backend_cpu_buffer_type());
        ggml_backend_tensor_set(x, activations.data(), 0, ggml_nbytes(x));
        ggml_backend_tensor_set(ids, routing.data(), 0, ggml_nbytes(ids));
        ggml_backend_tensor_set(w, router.data(), 0, ggml_nbytes(w));
        if (stream && before_compute) {
            before_compute();
        }
        const std::vector<ggml_tensor *> firsts = in_splits ? std::vector{up, down} : std::vector<ggml_tensor *>();
        const ggml_status status =
            stream ? compute_streamed(executor, context, graph, firsts) : ggml_backend_graph_compute(cpu_, graph);
        if (stream && after_compute) {
            after_compute();
        }
        std::vector<float> &values = stream ? result.streamed : result.resident;
        values.resize(ggml_nelements(out));
        ggml_backend_tensor_get(out, values.data(), 0, ggml_nbytes(out));
        result.status = stream ? status : result.status;
        ggml_backend_buffer_free(buffer);
        ggml_free(context);
    }
    return result;
}

}  // namespace bmoe::backend::test
