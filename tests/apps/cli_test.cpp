// The command as a user runs it: real files, real faults.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <regex>
#include <thread>

#include "tests/apps/run_command.h"
#include "tests/io/child_process.h"
#include "tests/support/scratch.h"

namespace bmoe::apps::test {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ContainsRegex;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

const std::string kDemo = BMOE_DEMO_MODEL;
const std::string kTiny = BMOE_TINY_MODELS;
const std::string kPrompt = " -p 'And the king said unto'";

// Every run starts alike, and leaves nothing behind.
std::string cli(const std::string &model, const std::string &flags) {
    return quoted(BMOE_CLI) + " -m " + quoted(model) + " --no-warm-start -t 2 -c 512 -n 24 " + flags;
}

std::string streamed(const std::string &model, const std::string &flags = "--cache-mb 2") {
    return cli(model, "--moe-stream " + flags + kPrompt);
}

// What every run of this model must print on stdout.
std::string resident_text(const std::string &model) {
    const Finished plain = run_command(cli(model, "--moe-stream off --no-repack" + kPrompt));
    EXPECT_EQ(plain.status, 0) << plain.err;
    return plain.out;
}

TEST(Cli, StreamsTheTextOfTheResidentModelAndSumsUp) {
    const Finished run = run_command(streamed(kDemo, "--cache-mb 2 --no-repack"));
    EXPECT_EQ(run.status, 0) << run.err;
    EXPECT_EQ(run.out, resident_text(kDemo));
    EXPECT_THAT(run.err, ContainsRegex("generation: 24 tokens, [0-9.]+ s/token \\([0-9.]+ tok/s\\)"));
    EXPECT_THAT(run.err, ContainsRegex("compute: [0-9.]+ s/token, .* majflt/token [0-9.]+"));
    EXPECT_THAT(run.err,
                ContainsRegex("moe-stream: read [0-9]+ MiB \\([0-9.]+ MiB/token\\), [0-9.]+ GiB/s .*o_direct=[01]"));
    EXPECT_THAT(run.err, ContainsRegex("moe-cache: [0-9.]+% hit, resident [0-9]+ MiB"));
}

TEST(Cli, StartsWithTheExpertsOfTheRunBefore) {
    const bmoe::test::Scratch scratch;
    const std::string folder = scratch.file("cache");
    const std::string run = "XDG_CACHE_HOME=" + quoted(folder) + " " + quoted(BMOE_CLI) + " -m " + quoted(kDemo) +
                            " --moe-stream --cache-mb 4 --no-repack -t 2 -c 512 -n 24" + kPrompt;
    const std::string text = resident_text(kDemo);
    const Finished first = run_command(run);
    EXPECT_EQ(first.out, text) << first.err;
    EXPECT_THAT(first.err, HasSubstr(", warm start 0 MiB"));
    ASSERT_TRUE(fs::is_directory(folder + "/bmoe")) << first.err;
    std::vector<std::string> files;
    for (const auto &entry : fs::directory_iterator(folder + "/bmoe")) {
        files.push_back(entry.path().filename().string());
    }
    EXPECT_THAT(files, ElementsAre(ContainsRegex("^[0-9a-f]{16}\\.profile$")));
    // How much it reads before the prompt comes is a matter of speed.
    const Finished second = run_command(run);
    EXPECT_EQ(second.out, text) << second.err;
    EXPECT_THAT(second.err, AllOf(ContainsRegex(", warm start [0-9]+ MiB"), Not(HasSubstr("note:"))));
    const std::string profile = folder + "/bmoe/" + files.front();
    fs::resize_file(profile, fs::file_size(profile) / 2);
    const Finished third = run_command(run);
    EXPECT_EQ(third.out, text) << third.err;
    EXPECT_THAT(third.err, AllOf(HasSubstr("note: warm start: the profile " + profile), HasSubstr("damaged")));

    const Finished own = run_command(run + " --profile " + quoted(scratch.file("own")));
    EXPECT_THAT(own.err, HasSubstr(", warm start 0 MiB"));
    EXPECT_TRUE(fs::exists(scratch.file("own")));
    fs::remove_all(folder);
    EXPECT_THAT(run_command(run + " --no-warm-start").err, HasSubstr(", warm start 0 MiB"));
    EXPECT_FALSE(fs::exists(folder));
    EXPECT_EQ(run_command(run + " --no-warm-start --profile x").status, 2);
}

TEST(Cli, TheDefaultPlaceOfTheProfileFollowsTheEnvironment) {
    const bmoe::test::Scratch scratch;
    const std::string run =
        quoted(BMOE_CLI) + " -m " + quoted(kDemo) + " --moe-stream --cache-mb 4 -t 2 -c 512 -n 1" + kPrompt;
    const std::string home = scratch.folder("home");
    EXPECT_EQ(run_command("HOME=" + quoted(home) + " XDG_CACHE_HOME= " + run).status, 0);
    EXPECT_TRUE(fs::is_directory(home + "/.cache/bmoe"));
    const Finished nowhere = run_command("HOME= XDG_CACHE_HOME= " + run);
    EXPECT_EQ(nowhere.status, 0);
    EXPECT_THAT(nowhere.err, HasSubstr("note: warm start: neither XDG_CACHE_HOME nor HOME"));
    fs::remove_all(home + "/.cache");
    std::ofstream(home + "/.cache").flush();
    const Finished blocked = run_command("HOME=" + quoted(home) + " XDG_CACHE_HOME= " + run);
    EXPECT_EQ(blocked.status, 0);
    EXPECT_THAT(blocked.err, ContainsRegex("note: warm start: cannot (read|make)"));
}

TEST(Cli, StaysWithinItsMemoryPlan) {
    for (const char *flags : {"--cache-mb 10", "--cache-mb 10 --io-threads 64"}) {
        const Finished run = run_command(streamed(kDemo, flags));
        std::smatch plan;
        std::smatch peak;
        ASSERT_TRUE(std::regex_search(run.err, plan, std::regex("memory: .* = ([0-9]+) MiB"))) << run.err;
        ASSERT_TRUE(std::regex_search(run.err, peak, std::regex("peak RSS ([0-9]+) MiB"))) << run.err;
        EXPECT_LE(std::stoi(peak[1]), std::stoi(plan[1])) << flags;
    }
}

TEST(Cli, RunsWithoutACacheAndWithAnAutomaticOne) {
    const std::string text = resident_text(kDemo);
    for (const char *cache : {"0", "auto"}) {
        const Finished run = run_command(streamed(kDemo, std::string("--no-repack --cache-mb ") + cache));
        EXPECT_EQ(run.status, 0) << run.err;
        EXPECT_EQ(run.out, text) << cache;
    }
}

TEST(Cli, TakesAnyShard) {
    const Finished whole = run_command(streamed(kTiny + "/gpt-oss.gguf"));
    const Finished shard = run_command(streamed(kTiny + "/gpt-oss-00002-of-00003.gguf"));
    EXPECT_EQ(shard.status, 0) << shard.err;
    EXPECT_EQ(shard.out, whole.out);
    EXPECT_EQ(run_command(cli(kTiny + "/gpt-oss-00002-of-00003.gguf", "--moe-stream off" + kPrompt)).status, 0);
}

TEST(Cli, TakesPathsWithSpacesAndUtf8AndLinks) {
    const bmoe::test::Scratch scratch;
    const std::string link = scratch.folder("mit Leerzeichen") + "/größe.gguf";
    fs::create_symlink(kDemo, link);
    EXPECT_EQ(run_command(streamed(link)).status, 0);
}

TEST(Cli, SaysThatAModelHasNoExperts) {
    const Finished run = run_command(streamed(kTiny + "/qwen3.gguf"));
    EXPECT_EQ(run.status, 0) << run.err;
    EXPECT_THAT(run.err, HasSubstr("no experts"));
}

TEST(Cli, RefusesWhatItCannotRunAndNamesIt) {
    const bmoe::test::Scratch scratch;
    const std::string missing = scratch.file("nothing.gguf");
    EXPECT_THAT(run_command(streamed(missing)).err, HasSubstr(missing));
    EXPECT_EQ(run_command(streamed(missing)).status, 1);

    const std::string cut = scratch.file("cut.gguf");
    fs::copy_file(kDemo, cut);
    fs::resize_file(cut, fs::file_size(kDemo) / 2);
    const Finished truncated = run_command(streamed(cut));
    EXPECT_EQ(truncated.status, 1);
    EXPECT_THAT(truncated.err, AllOf(HasSubstr(cut), HasSubstr("blk.")));

    const std::string lonely = scratch.file("gpt-oss-00001-of-00003.gguf");
    fs::copy_file(kTiny + "/gpt-oss-00001-of-00003.gguf", lonely);
    const Finished incomplete = run_command(streamed(lonely));
    EXPECT_EQ(incomplete.status, 1);
    EXPECT_THAT(incomplete.err, HasSubstr("gpt-oss-00002-of-00003.gguf"));

    fs::copy_file(kTiny + "/gpt-oss-00002-of-00003.gguf", scratch.file("gpt-oss-00002-of-00003.gguf"));
    fs::copy_file(kTiny + "/lfm2moe-00003-of-00003.gguf", scratch.file("gpt-oss-00003-of-00003.gguf"));
    const Finished mixed = run_command(streamed(lonely));
    EXPECT_EQ(mixed.status, 1);
    EXPECT_THAT(mixed.err, HasSubstr("gpt-oss-00003-of-00003.gguf"));

    for (const char *flags : {"--cache-mb many", "--io-threads 0", "--no-such-flag", "--cache-policy fifo",
                              "--io-engine disk", "-fa off -ctv q8_0"}) {
        EXPECT_EQ(run_command(streamed(kDemo, flags)).status, 2) << flags;
    }
    EXPECT_THAT(run_command(streamed(kDemo, "--chat")).err, HasSubstr("chat template"));

    // Before anything is loaded.
    const Finished empty = run_command(cli(missing, "--moe-stream -p ''"));
    EXPECT_EQ(empty.status, 2);
    EXPECT_THAT(empty.err, HasSubstr("the prompt is empty: give some text with -p\n"));
}

// The type that the header of the GGUF at `path` gives for a tensor of two dimensions.
void set_tensor_type(const std::string &path, const std::string &tensor, uint32_t type) {
    std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
    const std::string bytes((std::istreambuf_iterator<char>(file)), {});
    const size_t name = bytes.find(tensor);
    ASSERT_NE(name, std::string::npos);
    file.seekp(static_cast<std::streamoff>(name + tensor.size() + sizeof(uint32_t) + 2 * sizeof(uint64_t)));
    file.write(reinterpret_cast<const char *>(&type), sizeof(type));
}

TEST(Cli, UsesNoMoreThreadsThanProcessorsAndSaysSo) {
    const Finished run = run_command(streamed(kDemo, "--cache-mb 2 -t 500"));
    EXPECT_EQ(run.status, 0) << run.err;
    const std::string processors = std::to_string(std::thread::hardware_concurrency());
    EXPECT_THAT(run.err, HasSubstr("note: --threads: 500 threads are more than the " + processors + " processors"));
    EXPECT_THAT(run.err, HasSubstr(" of " + processors + " threads busy"));
}

TEST(Cli, SaysWhichFlagsDoNothingWithoutStreaming) {
    const Finished run = run_command(cli(kDemo, "--moe-stream off --cache-mb 4 --lookahead 2 -n 2" + kPrompt));
    EXPECT_EQ(run.status, 0) << run.err;
    EXPECT_THAT(run.err, ContainsRegex("have no effect: .*--cache-mb.*--lookahead"));
}

TEST(Cli, SaysWhatKeepsLookaheadFromHavingAnEffect) {
    const auto note = [](const std::string &flags) {
        const Finished run = run_command(streamed(kDemo, flags + " -n 2"));
        EXPECT_EQ(run.status, 0) << run.err;
        std::smatch found;
        return std::regex_search(run.err, found, std::regex("note: with (.*) nothing is read ahead, and --lookahead"))
                   ? found[1].str()
                   : "";
    };
    EXPECT_EQ(note("--cache-mb 2 --lookahead 2 --overlap off"), "--overlap off");
    EXPECT_EQ(note("--cache-mb 0 --lookahead 2"), "--cache-mb 0");
    EXPECT_EQ(note("--cache-mb 2 --lookahead 2"), "");
    // Nobody asked for it.
    EXPECT_EQ(note("--cache-mb 2 --overlap off"), "");
    EXPECT_EQ(note("--cache-mb 0 --lookahead auto"), "");
    EXPECT_EQ(note("--cache-mb 0 --lookahead 0"), "");
    // One note is enough where nothing is streamed.
    EXPECT_THAT(run_command(cli(kDemo, "--moe-stream off --lookahead 2 --overlap off -n 2" + kPrompt)).err,
                Not(HasSubstr("read ahead")));
}

TEST(Cli, RefusesWeightsOfATypeThatNothingMultipliesBy) {
    const bmoe::test::Scratch scratch;
    const std::string damaged = scratch.file("damaged.gguf");
    fs::copy_file(kTiny + "/qwen3moe.gguf", damaged);
    constexpr uint32_t kI32 = 26;  // as long as F32, which the router is
    set_tensor_type(damaged, "blk.0.ffn_gate_inp.weight", kI32);
    const Finished run = run_command(streamed(damaged));
    EXPECT_EQ(run.status, 1);
    EXPECT_THAT(run.err, AllOf(HasSubstr("blk.0.ffn_gate_inp.weight"), HasSubstr("i32")));
}
// The preloaded library does not reach reads that the kernel performs for an io_uring.
constexpr const char *kPreadByLanes = " --io-engine lanes";

TEST(Cli, NamesTheExpertThatCannotBeRead) {
    // The reads that open the file, check direct I/O and load the dense weights pass.
    const std::string fault =
        "LD_PRELOAD=" + quoted(BMOE_FAULT_SHIM) + " BMOE_FAULT_PATH=demo-moe BMOE_FAULT_KIND=eio BMOE_FAULT_AFTER=200 ";
    const Finished run = run_command(fault + streamed(kDemo, std::string("--cache-mb 2") + kPreadByLanes));
    EXPECT_EQ(run.status, 1);
    EXPECT_THAT(run.err,
                ContainsRegex("cannot read expert [0-9]+ of tensor blk\\.[0-9]\\.ffn_(gate|up|down)_exps\\.weight "
                              "\\(shard 1 of 1, offset [0-9]+, [0-9]+ bytes\\)"));
    EXPECT_THAT(run.err, HasSubstr("generation:"));
}

TEST(Cli, SurvivesInterruptedAndShortReads) {
    const std::string text = resident_text(kDemo);
    for (const char *kind : {"eintr", "short"}) {
        const std::string fault =
            "LD_PRELOAD=" + quoted(BMOE_FAULT_SHIM) + " BMOE_FAULT_PATH=demo-moe BMOE_FAULT_KIND=" + kind + " ";
        const Finished run =
            run_command(fault + streamed(kDemo, std::string("--cache-mb 2 --no-repack") + kPreadByLanes));
        EXPECT_EQ(run.status, 0) << run.err;
        EXPECT_EQ(run.out, text) << kind;
    }
}

TEST(Cli, NoticesAFileThatChangesUnderIt) {
    const bmoe::test::Scratch scratch;
    const std::string copy = scratch.file("changing.gguf");
    fs::copy_file(kDemo, copy);
    std::ofstream(scratch.file("text")).flush();  // for the loop that watches it
    // The first token is there when the text grows beyond the prompt; then the file is written to.
    const Finished run = run_command(
        // Slow reads: the program must not be done before the file is written to.
        "LD_PRELOAD=" + quoted(BMOE_FAULT_SHIM) +
        " BMOE_FAULT_PATH=changing BMOE_FAULT_KIND=slow BMOE_FAULT_DELAY_MS=5 " + quoted(BMOE_CLI) + " -m " +
        quoted(copy) + " --no-warm-start --moe-stream --cache-mb 1 -t 1 -c 1024 -n 900" + kPreadByLanes + kPrompt +
        " >" + quoted(scratch.file("text")) + " & pid=$!; while [ $(wc -c <" + quoted(scratch.file("text")) +
        ") -lt 40 ] && kill -0 $pid; do :; done; printf x >>" + quoted(copy) + "; wait $pid");
    EXPECT_EQ(run.status, 1) << run.err;
    EXPECT_THAT(run.err, AllOf(HasSubstr(copy), HasSubstr("changed")));
}

TEST(Cli, ReadsBufferedWhereDirectReadsLie) {
#ifdef BMOE_LYING_FUSE
    const bmoe::test::Scratch scratch;
    const std::string mount = scratch.folder("mount");
    const std::string source = scratch.folder("source");
    fs::copy_file(kDemo, source + "/demo-moe.gguf");
    io::test::ChildProcess fuse({BMOE_LYING_FUSE, source, mount, "512"});
    std::string line;
    if (!fuse.read_line(line) || line != "ready") {
        GTEST_SKIP() << "no FUSE mount can be made here";
    }
    const Finished run = run_command(streamed(mount + "/demo-moe.gguf", "--cache-mb 2 --no-repack"));
    fuse.terminate();
    fuse.wait();
    EXPECT_EQ(run.status, 0) << run.err;
    EXPECT_EQ(run.out, resident_text(kDemo));
    EXPECT_THAT(run.err, AllOf(HasSubstr("buffered"), HasSubstr("o_direct=0")));
#else
    GTEST_SKIP() << "built without libfuse3";
#endif
}

TEST(Cli, RunsFromTmpfs) {
    if (!fs::is_directory("/dev/shm")) {
        GTEST_SKIP() << "no tmpfs at /dev/shm";
    }
    const std::string copy = "/dev/shm/bmoe-cli-test-" + std::to_string(getpid()) + ".gguf";
    fs::copy_file(kDemo, copy);
    const Finished run = run_command(streamed(copy, "--cache-mb 2 --no-repack"));
    fs::remove(copy);
    EXPECT_EQ(run.status, 0) << run.err;
    EXPECT_EQ(run.out, resident_text(kDemo));
}

TEST(Cli, RefusesAPlanThatACgroupCannotHold) {
    // v1 and v2 differ in names only.
    const std::string v1 = "/sys/fs/cgroup/memory";
    const bool is_v1 = fs::exists(v1 + "/memory.limit_in_bytes");
    const std::string parent = is_v1 ? v1 : "/sys/fs/cgroup";
    const std::string group = parent + "/bmoe-cli-test-" + std::to_string(getpid());
    std::error_code failed;
    fs::create_directory(group, failed);
    const std::string limit = group + (is_v1 ? "/memory.limit_in_bytes" : "/memory.max");
    if (failed || !(std::ofstream(limit) << (100 << 20)).flush()) {
        fs::remove(group, failed);
        GTEST_SKIP() << "no memory cgroup can be made here";
    }
    const Finished run =
        run_command("echo $$ >" + quoted(group + "/cgroup.procs") + "; " + streamed(kDemo, "--cache-mb 50"));
    fs::remove(group, failed);
    EXPECT_EQ(run.status, 1) << run.err;
    EXPECT_THAT(run.err, AllOf(HasSubstr("dense"), HasSubstr("cgroup"), HasSubstr("--cache-mb")));
    EXPECT_THAT(run.err, Not(HasSubstr("generation:")));
}

TEST(Cli, MarksTheOutputOfARouteReplayAndOfFewerExperts) {
    const std::string model = kTiny + "/qwen3moe.gguf";
    const bmoe::test::Scratch scratch;
    const std::string trace = scratch.file("a.route.csv");
    std::ofstream(trace) << "# route_trace v1\n# model=m arch=x n_layer=2 n_expert=16 n_expert_used=2\n"
                            "# layer=0 expert_bytes=1000\n# layer=1 expert_bytes=1000\n"
                            "0,1,0,0,0,3,0.5\n0,1,0,0,1,1,0.5\n0,1,0,1,0,3,0.5\n0,1,0,1,1,1,0.5\n";
    const Finished replay = run_command(streamed(model, "--route-replay " + quoted(trace)));
    EXPECT_EQ(replay.status, 0) << replay.err;
    EXPECT_THAT(replay.err,
                HasSubstr("route-replay: " + trace + ", 1 tokens, routing is recorded, text is meaningless"));
    EXPECT_THAT(replay.err, HasSubstr("lossy: a token uses 2 experts"));
    const Finished lossy = run_command(streamed(model, "--n-expert-used 3"));
    EXPECT_EQ(lossy.status, 0) << lossy.err;
    EXPECT_THAT(lossy.err,
                HasSubstr("note: the output is lossy: a token uses 3 experts of a layer; the model was made"));
    EXPECT_THAT(lossy.err, Not(HasSubstr("route-replay")));
    EXPECT_EQ(run_command(streamed(model, "--n-expert-used 17")).status, 1);
    const Finished folder = run_command(streamed(model, "--route-replay " + quoted(scratch.path().string())));
    EXPECT_EQ(folder.status, 1);
    EXPECT_THAT(folder.err, HasSubstr(scratch.path().string() + ": is a folder"));
}

// What the command line alone shows to be impossible is a wrong command line, and the flag is named.
TEST(Cli, RefusesFlagsThatExcludeEachOtherByTheirNames) {
    const std::pair<const char *, const char *> conflicts[] = {
        {"-p And --moe-stream off --route-replay x", "--route-replay"},
        {"-p And --moe-stream off --route-trace x", "--route-trace"},
        {"-p And --moe-stream off --io-trace x", "--io-trace"},
        {"-p And --moe-stream off --ram 6G", "--ram"},
        {"-p And --cache-mb 4 --cache-ceil-mb 6", "--cache-ceil-mb"},
        {"-p And --cache-mb 4 --cache-floor-mb 2", "--cache-floor-mb"},
        {"-p And --cache-ceil-mb 4 --cache-floor-mb 5", "--cache-floor-mb"},
        {"-p And -ctv q8_0 -fa off", "--cache-type-v"},
        {"-p And --no-warm-start --profile x", "--profile"},
        {"-p And -f x", "--prompt"},
        {"-p And --chat --raw", "--raw"},
        {"-p And --quality-budget 1 --drop-cold-experts 0.5", "--quality-budget"},
        {"-p And --quality-budget 1 --substitute-cold 0.5", "--quality-budget"},
        {"-p And --quality-budget 1 --drop-in-prefill", "--quality-budget"},
        {"-p And --route-logits 4", "--route-trace"},
        {"-p And --route-trace x --io-trace x", "--io-trace"},
        {"-p And --session", "--prompt"},
        {"-f x --session", "--file"},
        {"--chat --session", "--chat"},
        {"perplexity -p And --seed 1", "--seed"},
        {"perplexity -p And --top-k 1", "--top-k"},
        {"perplexity -p And --top-p 0.5", "--top-p"},
        {"perplexity -p And --min-p 0.5", "--min-p"},
        {"perplexity -p And --raw", "--raw"},
        {"perplexity -p And --session", "--session"},
        {"perplexity -p And --list-models .", "--list-models"},
        {"perplexity -p And --route-replay x", "--route-replay"},
        {"-p And --substitute-cold 1.5", "--substitute-cold"},
        {"-p And --substitute-cold 50", "--substitute-cold"},
        {"-p And --route-replay ''", "--route-replay"},
        {"-p And --profile ''", "--profile"},
        {"-f ''", "--file"},
    };
    for (const auto &[flags, named] : conflicts) {
        const Finished refused = run_command(cli(kDemo, flags));
        EXPECT_EQ(refused.status, 2) << flags << '\n' << refused.err;
        EXPECT_THAT(refused.err, HasSubstr(named)) << flags;
        EXPECT_EQ(refused.out, "") << flags;
    }
}

TEST(Cli, HelpShowsExamplesAndVersionNamesLlamaCpp) {
    const Finished help = run_command(quoted(BMOE_CLI) + " --help");
    EXPECT_EQ(help.status, 0);
    EXPECT_THAT(help.out, AllOf(HasSubstr("Examples:"), HasSubstr("--moe-stream"), HasSubstr("--cache-mb")));
    const Finished version = run_command(quoted(BMOE_CLI) + " --version");
    EXPECT_EQ(version.status, 0);
    EXPECT_THAT(version.out, ContainsRegex("bmoe [0-9.]+ \\(llama.cpp [0-9a-f]+\\)"));
}

}  // namespace
}  // namespace bmoe::apps::test
