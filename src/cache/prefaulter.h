// Backs memory shortly before it is needed, on a thread of its own.
//
// A read into memory that was never touched has the kernel clear each page first, on the thread that reads: a virtual machine
// that must get the memory from its host does less than 1 GB/s of that, a fraction of what the disk delivers.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <thread>

namespace bmoe::cache {

class Prefaulter {
  public:
    // Keeps [data, data + size) backed up to `ahead` bytes behind what is used, from the start on. Where the kernel cannot do
    // that (before 5.14) or has no memory it stops: pages are then backed when they are touched.
    Prefaulter(std::byte *data, uint64_t size, uint64_t ahead);
    ~Prefaulter();
    Prefaulter(const Prefaulter &) = delete;
    Prefaulter &operator=(const Prefaulter &) = delete;

    // The first `bytes` are in use. By one thread.
    void used(uint64_t bytes);

  private:
    void run();

    std::byte *data_;
    uint64_t size_;
    uint64_t ahead_;
    std::atomic<uint64_t> goal_;
    std::atomic<bool> stop_{false};
    std::thread thread_;
};

}  // namespace bmoe::cache
