#include "cli/perplexity_command.h"

#include <algorithm>
#include <chrono>
#include <cstdio>

#include "cli/interrupt.h"
#include "cli/open_engine.h"
#include "cli/progress_line.h"
#include "cli/run_summary.h"
#include "cli/text_output.h"
#include "engine/perplexity.h"

namespace bmoe::cli {

int run_perplexity(const CommandLine &command) {
    const auto start = std::chrono::steady_clock::now();
    const auto engine = open_engine(command);
    const auto text = engine->tokenize(command.prompt, true);
    const double before = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();

    InterruptScope interrupt(*engine);
    const auto most = static_cast<uint64_t>(command.max_tokens);
    ProgressLine progress("tokens");
    const engine::Perplexity result = engine::measure_perplexity(*engine, text, most, [&](uint64_t scored) {
        progress.show(static_cast<float>(scored) / static_cast<float>(std::min<uint64_t>(most, text.size())));
    });
    progress.clear();
    interrupt.ignore_from_now_on();
    if (result.scored == 0) {
        std::fprintf(stderr, "note: interrupted before a token was scored\n");
        print_summary(*engine, result.stats, before);
        return interrupt.exit_status();
    }
    char line[160];
    std::snprintf(line, sizeof(line), "perplexity: %.4f +- %.4f, %.5f nats/token, %llu tokens scored of %zu\n",
                  result.value(), result.error(), result.mean_nll, static_cast<unsigned long long>(result.scored),
                  text.size());
    TextOutput output;
    output.write(line);
    print_summary(*engine, result.stats, before);
    if (output.failed()) {
        return output.report_failure();
    }
    return interrupt.exit_status();
}

}  // namespace bmoe::cli
