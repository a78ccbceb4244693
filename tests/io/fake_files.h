// Files that misbehave in ways the operating system cannot be made to.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "io/random_access_file.h"

namespace bmoe::io::test {

// Opened once; what waits before it goes on then.
class Gate {
  public:
    void open() {
        const std::lock_guard lock(mutex_);
        is_open_ = true;
        changed_.notify_all();
    }
    void pass() {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [this] { return is_open_; });
    }

  private:
    std::mutex mutex_;
    std::condition_variable changed_;
    bool is_open_ = false;
};

// Contents in memory, with a function called at the start of each read. If that returns an error, the read does too.
class FakeFile : public RandomAccessFile {
  public:
    using Hook = std::function<ReadStatus(uint64_t offset, uint64_t length, std::byte *dst)>;

    explicit FakeFile(std::vector<std::byte> contents, Hook hook = {}, uint32_t block = 4096)
        : contents_(std::move(contents)), hook_(std::move(hook)), block_(block) {}

    const std::string &path() const override { return path_; }
    uint64_t size() const override { return contents_.size(); }
    uint32_t block_size() const override { return block_; }
    bool is_direct() const override { return true; }

    ReadStatus read(uint64_t offset, uint64_t length, std::byte *dst) const override {
        if (hook_) {
            ReadStatus status = hook_(offset, length, dst);
            if (!status.ok()) return status;
        }
        const Span room = span(offset, length);
        // A direct read may write all of its room.
        std::memset(dst, 0xee, room.length);
        std::memcpy(dst + room.lead, contents_.data() + offset, length);
        return {};
    }

  private:
    std::string path_ = "fake.gguf";
    std::vector<std::byte> contents_;
    Hook hook_;
    uint32_t block_;
};

}  // namespace bmoe::io::test
