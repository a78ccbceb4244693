// A FILE over a VirtualGguf, for llama_model_load_from_file_ptr.
//
// glibc's fread copies through the stream's own buffer and so touches the destination even of ranges that are passed
// over (17 GB of page faults on an 18 GB model). Programs that use this link with -Wl,--wrap=fread, which the CMake
// target bmoe_gguf_stdio adds: for streams opened here the wrapper calls VirtualGguf::read, for all others the real
// fread. An fread in a shared library is not wrapped: on these streams it is right, but slow.
#pragma once

#include <cstdio>
#include <memory>

#include "gguf/virtual_gguf.h"

namespace bmoe::gguf {

struct CloseFile {
    void operator()(FILE *file) const { std::fclose(file); }
};
using FilePtr = std::unique_ptr<FILE, CloseFile>;

// `source` must outlive the stream. One thread reads a stream at a time; streams of different threads are independent.
FilePtr open_stream(VirtualGguf &source);

}  // namespace bmoe::gguf
