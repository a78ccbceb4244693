"""bench-run.sh with the real bmoe-cli, under the shells that are installed."""

import csv
import os
import shutil
import signal
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

from bench_run_support import BENCH_RUN, CLI, DEMO, fast_sleep, read_metrics, run, shells

METRICS = """bench_run model tokens prompt exit_status start_time seconds o_direct peak_rss_bytes mem_available_start_bytes
    mem_available_floor_bytes mem_available_end_bytes cpu_temp_start_c cpu_temp_max_c battery_temp_start_c battery_temp_max_c
    battery_level_start scaling_max_freq_start_khz scaling_max_freq_min_khz psi_cpu_max psi_memory_max psi_io_max majflt
    samples""".split()
FLAGS = ["--cache-mb", "4", "--no-warm-start"]


def rows(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(line for line in file if not line.startswith("#")))


class BenchRun(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.scratch = Path(scratch.name)
        self.out = self.scratch / "out"
        self.path = fast_sleep(scratch.name)

    def refused(self, *arguments, **environment):
        done = run(["sh", BENCH_RUN, *arguments], **environment)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertRegex(done.stderr, r"^bench-run: error: [^\n]*\n$")
        return done.stderr

    def start(self, tokens):
        process = subprocess.Popen(["sh", BENCH_RUN, "-n", str(tokens), CLI, DEMO, self.out, *FLAGS], stdin=subprocess.DEVNULL,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True,
                                   env=os.environ | {"PATH": self.path})
        table = Path(f"{self.out}.csv")
        deadline = time.monotonic() + 60
        while not (table.exists() and "\ntoken," in table.read_text()):
            self.assertIsNone(process.poll(), "ended before the first token")
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.01)
        return process

    def expect_interrupted(self, process, status):
        said = process.communicate(timeout=60)[1]
        self.assertEqual(process.returncode, status, said)
        self.assertIn("interrupted", said)
        metrics = read_metrics(f"{self.out}.metrics")
        self.assertEqual(metrics["exit_status"], str(status))
        self.assertGreater(int(metrics["samples"]), 0)
        self.assertEqual(rows(f"{self.out}.csv")[-1]["row"], "summary")
        self.assertFalse(Path(f"{self.out}.pid").exists())
        # bmoe-cli is gone.
        self.assertNotIn(f"{self.out}.csv", "".join(
            entry.read_text(errors="replace") for entry in Path("/proc").glob("[0-9]*/cmdline") if entry.exists()))

    def test_records_a_run_under_every_shell(self):
        for name, shell, path in shells(self.scratch):
            with self.subTest(shell=name):
                done = run([*shell, BENCH_RUN, "-n", 24, CLI, DEMO, self.out, *FLAGS], PATH=path)
                self.assertEqual((done.returncode, done.stderr), (0, ""))
                self.assertRegex(done.stdout, r"^generation: 24 tokens, .* tok/s\)")
                metrics = read_metrics(f"{self.out}.metrics")
                self.assertEqual(list(metrics), METRICS)
                self.assertEqual({key: metrics[key] for key in ("bench_run", "model", "tokens", "exit_status", "o_direct")},
                                 {"bench_run": "1", "model": str(DEMO), "tokens": "24", "exit_status": "0", "o_direct": "1"})
                self.assertRegex(metrics["start_time"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$")
                self.assertGreater(int(metrics["peak_rss_bytes"]), 16 << 20)
                self.assertLess(int(metrics["peak_rss_bytes"]), 1 << 30)
                with open("/proc/meminfo") as file:
                    total = int(file.readline().split()[1]) * 1024
                for moment in ("start", "floor", "end"):
                    self.assertTrue(0 < int(metrics[f"mem_available_{moment}_bytes"]) <= total)
                self.assertLessEqual(int(metrics["mem_available_floor_bytes"]), int(metrics["mem_available_start_bytes"]))
                self.assertGreaterEqual(int(metrics["majflt"]), 0)
                table = rows(f"{self.out}.csv")
                self.assertEqual((table[0]["row"], table[-1]["row"], table[-1]["tokens"]), ("prompt", "summary", "23"))
                self.assertIn("moe-cache:", Path(f"{self.out}.log").read_text())
                self.assertIn("progress: phase=decode", Path(f"{self.out}.log").read_text())
                text = " ".join(Path(f"{self.out}.txt").read_text().split())
                self.assertTrue(text.startswith(metrics["prompt"]))
                self.assertFalse(Path(f"{self.out}.pid").exists())

    def test_a_model_in_a_folder_with_blanks(self):
        folder = self.scratch / "a b'c"
        folder.mkdir()
        shutil.copy(DEMO, folder / "m.gguf")
        done = run(["sh", BENCH_RUN, "-n", 4, CLI, folder / "m.gguf", folder / "out", *FLAGS], PATH=self.path)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(read_metrics(folder / "out.metrics")["model"], str(folder / "m.gguf"))

    def test_a_run_through_the_page_cache_fails(self):
        done = run(["sh", BENCH_RUN, "-n", 4, CLI, DEMO, self.out, *FLAGS, "--no-odirect"], PATH=self.path)
        self.assertEqual(done.returncode, 3)
        self.assertRegex(done.stderr, r"^bench-run: error: [^\n]*o_direct=0[^\n]*\n$")
        metrics = read_metrics(f"{self.out}.metrics")
        self.assertEqual((metrics["exit_status"], metrics["o_direct"]), ("3", "0"))

    def test_a_run_without_streaming_says_so(self):
        done = run(["sh", BENCH_RUN, "-n", 4, CLI, DEMO, self.out, "--moe-stream", "off"], PATH=self.path)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("no expert was streamed", done.stderr)
        self.assertEqual(read_metrics(f"{self.out}.metrics")["o_direct"], "-1")

    def test_what_bmoe_cli_refuses_is_passed_on(self):
        for flags, status, words in ((["--cache-mb", "many"], 2, "'many'"), (["--ram", "10M"], 1, "--ram")):
            with self.subTest(flags=flags):
                done = run(["sh", BENCH_RUN, "-n", 4, CLI, DEMO, self.out, *flags], PATH=self.path)
                self.assertEqual(done.returncode, status, done.stderr)
                self.assertRegex(done.stderr, rf"^bench-run: error: bmoe-cli ended with status {status}: [^\n]*{words}[^\n]*\n$")
                self.assertEqual(read_metrics(f"{self.out}.metrics")["exit_status"], str(status))

    def test_refuses_what_it_cannot_run_and_names_it(self):
        self.assertIn("/none/bmoe-cli", self.refused("/none/bmoe-cli", DEMO, self.out))
        self.assertIn("/none.gguf", self.refused(CLI, "/none.gguf", self.out))
        self.assertIn("/none/out.log", self.refused(CLI, DEMO, "/none/out"))
        self.assertIn("usage", self.refused(CLI, DEMO))
        self.assertIn("usage", self.refused("--state", "more"))
        self.assertIn("--cache-mb", self.refused("--cache-mb", 4, CLI, DEMO, self.out))
        for tokens in ("0", "-1", "many", ""):
            self.assertIn(f"'{tokens}'", self.refused("-n", tokens, CLI, DEMO, self.out))
        self.assertFalse(Path(f"{self.out}.metrics").exists())

    def test_an_interrupt_stops_bmoe_cli_and_leaves_what_was_recorded(self):
        process = self.start(3000)
        os.kill(int(Path(f"{self.out}.pid").read_text()), signal.SIGTERM)
        self.expect_interrupted(process, 143)

    def test_ctrl_c_in_a_terminal_reaches_both(self):
        process = self.start(3000)
        os.killpg(process.pid, signal.SIGINT)
        self.expect_interrupted(process, 130)


class Mounts(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.scratch = Path(scratch.name).resolve()
        self.folder = self.scratch / "a b"
        self.folder.mkdir()
        shutil.copy(DEMO, self.folder / "m.gguf")
        (self.scratch / "link.gguf").symlink_to(self.folder / "m.gguf")
        self.blanks = str(self.folder).replace(" ", "\\040")

    def run_with(self, mounts, model, shell=("sh",), path=os.environ["PATH"]):
        proc = self.scratch / "proc"
        proc.mkdir(exist_ok=True)
        (proc / "mounts").write_text("".join(f"none {folder} {kind} rw 0 0\n" for folder, kind in mounts))
        # A program that takes any arguments: what matters is whether it is reached.
        return run([*shell, BENCH_RUN, CLI, model, self.scratch / "out", "--help"], BMOE_BENCH_PROC=str(proc), PATH=path)

    def test_refuses_a_fuse_mount_by_the_longest_prefix(self):
        root = [("/", "ext4")]
        for kind in ("fuse", "fuse.sshfs", "fuseblk", "sdcardfs"):
            for name, shell, path in shells(self.scratch):
                with self.subTest(kind=kind, shell=name):
                    for model in (self.folder / "m.gguf", self.scratch / "link.gguf"):
                        done = self.run_with([(self.blanks, kind), *root], model, shell, path)
                        self.assertEqual(done.returncode, 2)
                        self.assertRegex(done.stderr, rf"^bench-run: error: [^\n]*{self.folder}[^\n]*\({kind}\)[^\n]*\n$")

    def test_other_mounts_do_not_matter(self):
        for mounts in ([("/", "fuse"), (self.blanks, "ext4")],  # a longer prefix
                       [(self.blanks, "fuse"), (self.blanks, "f2fs")],  # mounted over
                       [("/", "ext4"), (f"{self.scratch}/a", "fuse")],  # part of a name
                       [("/", "ext4"), ("/sys/fs/fuse/connections", "fusectl")]):
            with self.subTest(mounts=mounts):
                self.assertNotIn("FUSE", self.run_with(mounts, self.folder / "m.gguf").stderr)

    def test_refuses_a_real_fuse_mount(self):
        server = os.environ.get("BMOE_LYING_FUSE")
        if not server:
            self.skipTest("built without libfuse3")
        mount = self.scratch / "mount"
        mount.mkdir()
        process = subprocess.Popen([server, self.folder, mount, "0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        try:
            if process.stdout.readline() != "ready\n":
                self.skipTest("no FUSE mount can be made here")
            done = run(["sh", BENCH_RUN, "-n", 4, CLI, mount / "m.gguf", self.scratch / "out", *FLAGS])
        finally:
            process.terminate()
            process.communicate()
        self.assertEqual(done.returncode, 2)
        self.assertIn(f"{mount}, a FUSE mount", done.stderr)


if __name__ == "__main__":
    unittest.main()
