// One stretch of anonymous memory for expert slots.
#pragma once

#include <cstddef>
#include <cstdint>

namespace bmoe::cache {

// Reserves address space; the kernel backs a page when it is first touched. The start is aligned to a huge page and the end is
// not rounded up to one, so never more than size() bytes get backed. The addresses on both sides are not accessible: a write
// that runs over the end faults instead of damaging something else.
class Arena {
  public:
    // `size` in bytes, a multiple of page_size(); may be 0. Throws bmoe::Error if the kernel does not grant the addresses.
    explicit Arena(uint64_t size);
    ~Arena();
    Arena(const Arena &) = delete;
    Arena &operator=(const Arena &) = delete;

    static uint64_t page_size();

    std::byte *data() const { return data_; }
    uint64_t size() const { return size_; }

    // The kernel was asked for huge pages and took the request.
    bool huge_pages() const { return huge_pages_; }

    // Backs pages of an arena with memory now. They keep their contents, and other threads may use them meanwhile. 0 or an
    // error number: EINVAL if the kernel cannot do that (before 5.14).
    static int populate(std::byte *begin, uint64_t size);

    // Backs all of it with memory now. Throws bmoe::Error if there is not enough. Pages in use keep their contents, but no
    // other thread may write to the arena meanwhile.
    void prefault();

  private:
    void *reserved_ = nullptr;
    uint64_t reserved_size_ = 0;
    std::byte *data_ = nullptr;
    uint64_t size_ = 0;
    bool huge_pages_ = false;
};

}  // namespace bmoe::cache
