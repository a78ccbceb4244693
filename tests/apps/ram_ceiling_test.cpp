// --ram holds: the peak of the resident set, over loading, a long prompt and a long answer, in a memory cgroup of that size.
//
// BMOE_SYNTH_MODEL names a model that is much larger than the ceilings; without it the bundled one is run.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iostream>
#include <memory>
#include <regex>
#include <sstream>

#include "base/error.h"
#include "bench/memory_cgroup.h"
#include "llama.h"
#include "tests/apps/run_command.h"

namespace bmoe::apps::test {
namespace {

constexpr uint32_t kPromptTokens = 2048;
constexpr uint32_t kGenerated = 256;

std::string heldout_text() {
    std::ifstream file(BMOE_HELDOUT_TEXT, std::ios::binary);
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
}

// Beginning of the text, repeated if need be, that has `n` tokens of the model or a few more.
std::string text_of_tokens(const std::string &path, uint32_t n) {
    llama_model_params params = llama_model_default_params();
    params.vocab_only = true;
    const std::unique_ptr<llama_model, void (*)(llama_model *)> model(llama_model_load_from_file(path.c_str(), params),
                                                                      llama_model_free);
    if (model == nullptr) {
        throw Error(cat(path, ": cannot be opened"));
    }
    const auto count = [&](const std::string &text) {
        // Without room the number of tokens is returned with a minus.
        return static_cast<uint32_t>(-llama_tokenize(llama_model_get_vocab(model.get()), text.data(),
                                                     static_cast<int32_t>(text.size()), nullptr, 0, true, true));
    };
    std::string text = heldout_text();
    while (count(text) < n) {
        text += heldout_text();
    }
    size_t enough = text.size();
    size_t few = 0;
    while (enough - few > 16) {
        const size_t middle = few + (enough - few) / 2;
        (count(text.substr(0, middle)) >= n ? enough : few) = middle;
    }
    while (enough < text.size() && (static_cast<unsigned char>(text[enough]) & 0xC0U) == 0x80) {
        ++enough;  // not in the middle of a character
    }
    return text.substr(0, enough);
}

// Some more: of a text and its beginning, one may be cut into other tokens than the other.
std::string quoted_prompt(const std::string &path, uint32_t n) {
    return " -p " + quoted(text_of_tokens(path, n + n / 64));
}

double number_in(const std::string &text, const std::string &pattern) {
    std::smatch found;
    return std::regex_search(text, found, std::regex(pattern)) ? std::stod(found[1]) : -1;
}

// A cgroup of `bytes`, or why there is none.
std::unique_ptr<bench::MemoryCgroup> make_cgroup(uint64_t bytes, std::string &reason) {
    try {
        return std::make_unique<bench::MemoryCgroup>(bytes);
    } catch (const Error &error) {
        reason = error.what();
        return nullptr;
    }
}

void expect_ceiling(const std::string &model, uint64_t mib, const std::string &flags) {
    std::string reason;
    const auto cgroup = make_cgroup(mib << 20, reason);
    if (cgroup == nullptr) {
        GTEST_SKIP() << reason;
    }
    const Finished run =
        run_command("echo $$ >" + quoted(cgroup->procs_file()) + " && exec " + quoted(BMOE_CLI) + " -m " +
                    quoted(model) + " --no-warm-start --moe-stream --ram " + std::to_string(mib) + "M -c 4096 -n " +
                    std::to_string(kGenerated) + " " + flags + quoted_prompt(model, kPromptTokens));
    ASSERT_EQ(run.status, 0) << run.err;
    const double peak = number_in(run.err, "peak RSS ([0-9]+) MiB");
    EXPECT_GT(peak, 0) << run.err;
    EXPECT_LE(peak, static_cast<double>(mib)) << run.err;
    EXPECT_GE(number_in(run.err, "prompt ([0-9]+) tokens"), kPromptTokens) << run.err;
    std::cout << "--ram " << mib << "M " << flags << '\n' << run.err;
    if (const auto all = cgroup->peak_bytes()) {
        std::cout << "memory cgroup: " << (*all >> 20) << " MiB at most, page cache included\n";
    }
}

class LargeModel : public testing::TestWithParam<uint64_t> {};

TEST_P(LargeModel, StaysBelowTheCeiling) {
    const char *model = std::getenv("BMOE_SYNTH_MODEL");
    if (model == nullptr || *model == '\0') {
        GTEST_SKIP() << "BMOE_SYNTH_MODEL does not name a model";
    }
    expect_ceiling(model, GetParam() * 1024, "");
}

INSTANTIATE_TEST_SUITE_P(RamCeiling, LargeModel, testing::Values(3, 4, 6, 8),
                         [](const auto &info) { return std::to_string(info.param) + "GiB"; });

TEST(RamCeiling, HoldsForTheBundledModel) {
    expect_ceiling(BMOE_DEMO_MODEL, 300, "-t 1");
    expect_ceiling(BMOE_DEMO_MODEL, 160, "-t 1 --dense-weights mmap --cache-mb 4");
}

}  // namespace
}  // namespace bmoe::apps::test
