// Opens a file, reads ranges of it, and prints what happened: for tests that fault a whole process.
//   bmoe_read_probe <path> direct|buffered <offset> <length> [<offset> <length>]...
// Output: "direct 0|1", "note <text>", then for each range "sum <FNV-1a of the bytes>" or "error <text>"; or "throw <text>".
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <string>

#include "base/error.h"
#include "fnv.h"
#include "io/aligned_buffer.h"
#include "io/posix_file.h"

int main(int argc, char **argv) {
    using namespace bmoe::io;
    if (argc < 3) return 2;
    try {
        const OpenedFile opened =
            open_posix_file(argv[1], std::string(argv[2]) == "direct" ? DirectIo::kVerified : DirectIo::kOff);
        const RandomAccessFile &file = *opened.file;
        std::cout << "direct " << file.is_direct() << "\nnote " << opened.note << "\n";
        for (int i = 3; i + 1 < argc; i += 2) {
            const uint64_t offset = std::strtoull(argv[i], nullptr, 10);
            const uint64_t length = std::strtoull(argv[i + 1], nullptr, 10);
            const Span span = file.span(offset, length);
            const AlignedBuffer buffer(span.length, file.block_size());
            const ReadStatus status = file.read(offset, length, buffer.data());
            if (status.ok()) {
                std::cout << "sum " << test::fnv1a(buffer.data() + span.lead, length) << "\n";
            } else {
                std::cout << "error " << status.error << "\n";
            }
        }
    } catch (const bmoe::Error &error) {
        std::cout << "throw " << error.what() << "\n";
    }
    return 0;
}
