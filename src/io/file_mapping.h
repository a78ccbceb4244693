// A file mapped into memory, read-only: its pages are the page cache's, shared and reclaimable.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "io/random_access_file.h"

namespace bmoe::io {

class FileMapping {
  public:
    // Maps all of `file`, which nothing may truncate meanwhile: the kernel ends a process that touches a page behind the end of
    // its file, or one that cannot be read. Nothing is read yet. Throws bmoe::Error, naming the path.
    explicit FileMapping(const RandomAccessFile &file);
    ~FileMapping();
    FileMapping(const FileMapping &) = delete;
    FileMapping &operator=(const FileMapping &) = delete;

    const std::byte *data() const { return data_; }
    uint64_t size() const { return size_; }  // bytes

    // Closes the whole pages of [offset, offset + length) to every access: what is next to them then brings none of them into
    // this process. Not while others use the mapping. Throws bmoe::Error.
    void close(uint64_t offset, uint64_t length);

    // Reads [offset, offset + length) into the page cache and maps its pages. Thread-safe. The error is as of
    // RandomAccessFile::read().
    ReadStatus sweep(uint64_t offset, uint64_t length) const;

  private:
    std::string path_;
    const std::byte *data_ = nullptr;
    uint64_t size_ = 0;
};

// Whether the kernel tells this process which pages of a file are in memory: it must own the file, or be allowed to write to
// it. Other processes are told that all are.
bool residency_is_told(const std::string &path);

}  // namespace bmoe::io
