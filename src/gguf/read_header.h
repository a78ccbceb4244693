// Reads as much of a file's start as its GGUF header takes.
#pragma once

#include "gguf/header.h"
#include "io/random_access_file.h"

namespace bmoe::gguf {

// Throws bmoe::Error naming the file if it cannot be read or its header is not valid (see parse_header).
Header read_header(const io::RandomAccessFile &file);

}  // namespace bmoe::gguf
