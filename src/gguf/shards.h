// The files of a model: one GGUF, or the shards that llama-gguf-split makes of one.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "gguf/header.h"
#include "io/posix_file.h"

namespace bmoe::gguf {

struct Shard {
    std::unique_ptr<io::RandomAccessFile> file;
    Header header;
    std::string io_note;  // see io::OpenedFile
};

// Opens the file at `path` and, if it is a shard, all others of its model; returns them in order. The others are looked
// for beside `path` as given, then beside what it links to. A file without split keys, or with a split.count of 1, is a
// whole model whatever its name. Throws bmoe::Error naming the file if one is missing, misnumbered or of another model.
std::vector<Shard> open_shards(const std::string &path, io::DirectIo mode);

}  // namespace bmoe::gguf
