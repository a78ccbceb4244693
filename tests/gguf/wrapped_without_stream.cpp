// Links to bmoe_gguf_stdio without using it: fread must work as ever, in the program and in a library behind it.
#include <cstdio>
#include <cstring>

#include "tests/gguf/library_reader.h"

int main(int argc, char **argv) {
    char bytes[5] = {};
    FILE *file = std::fopen(argc > 1 ? argv[1] : "/proc/self/exe", "rb");
    if (file == nullptr) return 1;
    const bool ok = library_fread(bytes, 1, 4, file) == 4 && std::memcmp(bytes, "\177ELF", 4) == 0;
    std::fclose(file);
    std::puts(ok ? "fread works" : "fread is broken");
    return ok ? 0 : 1;
}
