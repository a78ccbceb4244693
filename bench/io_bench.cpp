// bmoe_io_bench MODEL.gguf [ROUNDS [BURST]]: prints what the disk delivers for reads of the model's slices, by engine and reads in flight.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <iostream>

#include "io_ceiling.h"

int main(int argc, char **argv) {
    using namespace bmoe;
    if (argc < 2 || argc > 4) {
        std::cerr
            << "usage: bmoe_io_bench MODEL.gguf [ROUNDS [BURST]]; BURST: reads queued at a time, default without end\n";
        return 2;
    }
    try {
        const auto model = gguf::ModelFile::open(argv[1], io::DirectIo::kVerified);
        if (!model->io_note().empty()) std::cout << model->io_note() << '\n';
        bench::IoCeilingOptions options;
        if (argc > 2) options.rounds = std::max(1, std::atoi(argv[2]));
        if (argc > 3) options.burst = std::strtoul(argv[3], nullptr, 10);
        std::printf("%8s %10s %10s   %s   %s\n", "engine", "in flight", "bytes", "GiB/s: median   min   max",
                    "CPU s/GiB");
        for (const auto &row : bench::measure_io_ceiling(*model, options)) {
            std::printf("%8s %10d %10llu %15.2f %7.2f %5.2f %11.3f\n",
                        row.engine == io::ReadEngine::kUring ? "uring" : "lanes", row.in_flight,
                        static_cast<unsigned long long>(row.request_bytes), row.gib_per_s_median, row.gib_per_s_min,
                        row.gib_per_s_max, row.cpu_s_per_gib);
        }
    } catch (const std::exception &error) {
        std::cerr << "bmoe_io_bench: " << error.what() << '\n';
        return 1;
    }
    return 0;
}
