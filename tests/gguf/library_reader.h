// A library, built apart from the tests, that calls fread: as llama.cpp does.
#pragma once

#include <cstddef>
#include <cstdio>

size_t library_fread(void *dst, size_t size, size_t n, FILE *file);
