#include "tests/gguf/library_reader.h"

size_t library_fread(void *dst, size_t size, size_t n, FILE *file) { return std::fread(dst, size, n, file); }
