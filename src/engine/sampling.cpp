#include "engine/sampling.h"

namespace bmoe::engine {

SamplerPtr make_sampler(const Sampling &sampling) {
    SamplerPtr chain(llama_sampler_chain_init(llama_sampler_chain_default_params()));
    if (sampling.temperature <= 0) {
        llama_sampler_chain_add(chain.get(), llama_sampler_init_greedy());
        return chain;
    }
    constexpr size_t kKept = 1;  // of each filter, at least
    llama_sampler_chain_add(chain.get(), llama_sampler_init_top_k(sampling.top_k));
    llama_sampler_chain_add(chain.get(), llama_sampler_init_top_p(sampling.top_p, kKept));
    llama_sampler_chain_add(chain.get(), llama_sampler_init_min_p(sampling.min_p, kKept));
    llama_sampler_chain_add(chain.get(), llama_sampler_init_temp(sampling.temperature));
    llama_sampler_chain_add(chain.get(), llama_sampler_init_dist(sampling.seed));
    return chain;
}

}  // namespace bmoe::engine
