// An executor with a thread pool of its own.
#pragma once

#include "backend/split_executor.h"
#include "ggml-cpu.h"

namespace bmoe::backend::test {

class Team {
  public:
    explicit Team(int n_threads) {
        ggml_threadpool_params params = ggml_threadpool_params_default(n_threads);
        params.poll = 0;
        pool_ = ggml_threadpool_new(&params);
        executor_.set_threadpool(pool_);
        executor_.set_threads(n_threads);
    }
    ~Team() {
        executor_.set_threadpool(nullptr);
        ggml_threadpool_free(pool_);
    }
    Team(const Team &) = delete;
    Team &operator=(const Team &) = delete;
    SplitExecutor &executor() { return executor_; }

  private:
    ggml_threadpool *pool_ = nullptr;
    SplitExecutor executor_;
};

}  // namespace bmoe::backend::test
