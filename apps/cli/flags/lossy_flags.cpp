#include "cli/flags/lossy_flags.h"

#include <iostream>

#include "base/error.h"
#include "cli/flags/checks.h"

namespace bmoe::cli {

namespace {

constexpr const char *kGroup = "Lossy (change the output)";

}  // namespace

void LossyFlags::add_to(CLI::App &app, CommandLine &out) {
    backend::LossyOptions &lossy = out.engine.lossy;
    app.add_option("--n-expert-used", out.engine.n_expert_used,
                   "Experts a token uses in each layer; fewer than the model was made for are faster")
        ->check(CLI::Range(1, 1 << 16))
        ->group(kGroup);
    app.add_option(
           "--quality-budget", lossy.quality_budget,
           "Percent of the router's weight that may be forgone, on average over 256 tokens: chooses the next two")
        ->check(number_from(0, 100))
        ->group(kGroup);
    app.add_option(
           "--substitute-cold", lossy.substitute_cold,
           "Replace an expert that is not in memory by one that is and has at least this share of its score; 0: off")
        ->capture_default_str()
        ->check(number_from(0, 1))
        ->group(kGroup);
    app.add_option("--drop-cold-experts", lossy.drop_cold,
                   "Skip an expert that is not in memory and weighs less than this many times the mean; 0: off")
        ->capture_default_str()
        ->check(number_from(0, 1))
        ->group(kGroup);
    app.add_flag("--drop-renorm", lossy.drop_renorm,
                 "Scale the other weights up by what was dropped or lost by replacing")
        ->group(kGroup);
    app.add_flag("--drop-in-prefill", lossy.drop_in_prefill, "Skip in prompts too")->group(kGroup);
}

void LossyFlags::apply(CommandLine &out) {
    const backend::LossyOptions &lossy = out.engine.lossy;
    try {
        lossy.check();
    } catch (const Error &error) {
        throw CLI::ValidationError(error.what());
    }
    if (lossy.drop_in_prefill && lossy.drop_cold == 0) {
        std::cerr << "note: nothing is dropped without --drop-cold-experts: --drop-in-prefill has no effect\n";
    }
    if (lossy.drop_renorm && !lossy.any()) {
        std::cerr << "note: nothing is dropped or replaced: --drop-renorm has no effect\n";
    }
}

}  // namespace bmoe::cli
