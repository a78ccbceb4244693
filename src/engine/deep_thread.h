// A thread with a stack for code that recurses once for each character of a text.
#pragma once

#include <pthread.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <system_error>
#include <utility>

namespace bmoe::engine {

class DeepThread {
  public:
    // Of addresses: memory is taken as far as the stack grows, and given back at the end.
    static constexpr size_t kStackBytes = size_t{256} << 20;

    // Throws std::system_error. What `work` throws ends the program.
    explicit DeepThread(std::function<void()> work) {
        auto owned = std::make_unique<std::function<void()>>(std::move(work));
        pthread_attr_t attributes;
        pthread_attr_init(&attributes);
        pthread_attr_setstacksize(&attributes, kStackBytes);
        const int error = pthread_create(&thread_, &attributes, run, owned.get());
        pthread_attr_destroy(&attributes);
        if (error != 0) {
            throw std::system_error(error, std::generic_category());
        }
        static_cast<void>(owned.release());  // it is the thread's
    }
    ~DeepThread() { pthread_join(thread_, nullptr); }
    DeepThread(const DeepThread &) = delete;
    DeepThread &operator=(const DeepThread &) = delete;

  private:
    static void *run(void *work) {
        const std::unique_ptr<std::function<void()>> owned(static_cast<std::function<void()> *>(work));
        (*owned)();
        return nullptr;
    }

    pthread_t thread_ = {};
};

}  // namespace bmoe::engine
