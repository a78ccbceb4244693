"""bmoe-matrix on this machine, with the real bmoe-cli."""

import json
import os
import signal
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

from bench_run_support import BMOE_MATRIX, CLI, DEMO, fast_sleep, read_metrics, run

FIELDS = {"run", "cell", "model", "axes", "varied", "pass", "round", "position", "tokens", "short", "interleaved", "flags",
          "memory_limit_mib", "target", "entry", "exit_status", "error", "csv", "metrics", "log", "text"}


class Matrix(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.scratch = Path(scratch.name)
        self.file = self.scratch / "matrix.toml"
        self.out = self.scratch / "results"
        self.write()

    def write(self, top="tokens = 8", axes="cache-mb = [4, 8]\noverlap = [\"on\", \"off\"]", model=DEMO, memory=1, wait=0):
        self.file.write_text(f'models = ["{model}"]\n{top}\n[axes]\n{axes}\n'
                             f"[entry]\ncpu_temp_c = -1\nmem_available_mib = {memory}\ncpu_idle_percent = -1\nwait_s = {wait}\n")

    def command(self, *arguments):
        return [BMOE_MATRIX, self.file, "--out", self.out, "--cli", CLI, *arguments]

    def matrix(self, *arguments, status=0):
        done = run(self.command("--short", *arguments), PATH=fast_sleep(self.scratch))
        self.assertEqual(done.returncode, status, done.stderr)
        return done

    def records(self):
        return [json.loads(line) for line in (self.out / "matrix.jsonl").read_text().splitlines()]

    def refused(self, *words):
        said = self.matrix(status=1).stderr
        for word in words:
            self.assertIn(word, said)
        self.assertNotIn("Traceback", said)

    def test_runs_are_recorded_with_their_files(self):
        done = self.matrix()
        records = self.records()
        self.assertEqual([record["run"] for record in records],
                         ["0001-base-forward-1", "0002-cache-mb-8-forward-1", "0003-overlap-off-forward-1"])
        for position, record in enumerate(records, 1):
            self.assertEqual(set(record), FIELDS)
            self.assertEqual((record["exit_status"], record["error"], record["position"], record["tokens"], record["short"]),
                             (0, "", position, 8, True))
            self.assertGreater(record["entry"]["mem_available_bytes"], 0)
            for kind in ("csv", "metrics", "log", "text"):
                self.assertTrue((self.out / record[kind]).stat().st_size > 0, kind)
            self.assertEqual(read_metrics(self.out / record["metrics"])["tokens"], "8")
        self.assertIn("# overlap=off\n", (self.out / records[2]["csv"]).read_text())
        self.assertIn("# overlap=on\n", (self.out / records[1]["csv"]).read_text())
        self.assertRegex(done.stderr, r"\[3/3\] 0003-overlap-off-forward-1: ok, [\d.]+ tok/s\n")
        # Nothing is left to do.
        self.matrix()
        self.assertEqual(self.records(), records)

    def test_an_interrupted_matrix_goes_on_where_it_stopped(self):
        self.write("tokens = 500")
        process = subprocess.Popen(self.command("--short"), stderr=subprocess.PIPE, text=True, start_new_session=True,
                                   env=os.environ | {"PATH": fast_sleep(self.scratch)})
        second = self.out / "runs" / "0002-cache-mb-8-forward-1.pid"
        while not second.exists():
            self.assertIsNone(process.poll(), "ended before its second run")
            time.sleep(0.005)
        process.send_signal(signal.SIGINT)
        said = process.communicate(timeout=60)[1]
        self.assertEqual(process.returncode, 130, said)
        self.assertIn("the same command goes on", said)
        first, interrupted = self.records()
        self.assertEqual(first["exit_status"], 0)
        self.assertIn(interrupted["exit_status"], (130, 143))
        self.assertIn("interrupted", interrupted["error"])
        self.assertFalse(second.exists())

        self.assertIn("1 of 3 runs are done already", self.matrix().stderr)
        records = self.records()
        self.assertEqual(records[:2], [first, interrupted])
        self.assertEqual([(record["run"][:4], record["exit_status"]) for record in records[2:]], [("0002", 0), ("0003", 0)])

    def test_another_matrix_in_the_same_folder_is_refused_with_the_difference(self):
        self.write(axes="cache-mb = [4]")
        self.matrix()
        self.write(axes="cache-mb = [5]")
        self.refused('"4"', '"5"')
        self.write(axes="cache-mb = [4] # a comment is no difference")
        self.matrix()

    def test_an_entry_that_was_given_up_is_recorded_and_said(self):
        self.write(axes="cache-mb = [4]", memory=100_000_000)
        self.assertIn("it runs all the same", self.matrix().stderr)
        entry = self.records()[0]["entry"]
        self.assertTrue(entry["gave_up"])
        self.assertIn("under 100000000 MiB", entry["reason"])

    def test_failed_runs_are_listed_and_repeated(self):
        self.write('tokens = 8\nflags = ["--cache-policy", "fifo"]', "cache-mb = [4]")
        done = self.matrix(status=1)
        self.assertIn("1 of 1 runs failed", done.stderr)
        record, = self.records()
        self.assertEqual(record["exit_status"], 2)
        self.assertIn("--cache-policy", record["error"])
        self.assertEqual(record["flags"], ["--cache-policy", "fifo"])
        self.matrix(status=1)
        self.assertEqual(len(self.records()), 2)

    def test_a_memory_limit_holds(self):
        can_limit = os.geteuid() == 0 and run([BMOE_MATRIX.parents[1] / "scripts" / "in-cgroup.sh", 64, "true"]).returncode == 0
        self.write("tokens = 8\nmemory_limit_mib = 60", "cache-mb = [4]")
        if not can_limit:
            if os.geteuid() != 0:
                self.refused("memory_limit_mib", "root")
            self.skipTest("no memory cgroup can be made here")
        self.matrix(status=1)
        self.assertIn("cgroup", self.records()[0]["error"])
        self.out = self.scratch / "roomy"
        self.write("tokens = 8\nmemory_limit_mib = 400", "cache-mb = [4]")
        self.matrix()
        self.assertEqual(self.records()[0]["memory_limit_mib"], 400)

    def test_refuses_what_cannot_run(self):
        self.write(model="/none.gguf")
        self.refused("/none.gguf")
        self.out = self.scratch / "other"
        self.write(axes="colour = [4]")
        self.refused(str(self.file), "colour", "cache-mb")
        self.write(axes="threads = [1, 512]")
        self.refused("512", "processors")
        done = run([BMOE_MATRIX, self.file, "--out", self.out, "--cli", "/none/bmoe-cli", "--short"])
        self.assertEqual((done.returncode, "/none/bmoe-cli" in done.stderr), (1, True))
        self.assertEqual(run([BMOE_MATRIX, self.scratch / "none.toml", "--dry-run"]).returncode, 1)
        self.assertEqual(run([BMOE_MATRIX, self.file]).returncode, 2)  # no --out

    def test_a_dry_run_prints_the_plan_and_runs_nothing(self):
        done = self.matrix("--dry-run")
        self.assertEqual([line.split()[0] for line in done.stdout.splitlines()],
                         ["3", "0001-base-forward-1", "0002-cache-mb-8-forward-1", "0003-overlap-off-forward-1"])
        self.assertIn("trial", done.stdout)
        self.assertFalse(self.out.exists())

    def test_a_plan_that_nobody_reads_to_its_end(self):
        self.write("tokens = 8\nrounds = 2000")
        reader, writer = os.pipe()
        os.close(reader)
        done = subprocess.run(self.command("--short", "--dry-run"), stdout=writer, stderr=subprocess.PIPE, text=True)
        os.close(writer)
        self.assertEqual((done.returncode, done.stderr), (141, ""))

    def test_runs_go_on_when_nobody_reads_about_them(self):
        self.write(axes="cache-mb = [4]")
        reader, writer = os.pipe()
        os.close(reader)
        done = subprocess.run(self.command("--short"), stderr=writer, env=os.environ | {"PATH": fast_sleep(self.scratch)})
        os.close(writer)
        self.assertEqual(done.returncode, 0)
        self.assertEqual([record["exit_status"] for record in self.records()], [0])

    def test_the_examples_are_plans(self):
        for example in (BMOE_MATRIX.parents[1] / "docs").glob("matrix-*.toml"):
            with self.subTest(example=example.name):
                done = run([BMOE_MATRIX, example, "--dry-run"])
                self.assertEqual(done.returncode, 0, done.stderr)


if __name__ == "__main__":
    unittest.main()
