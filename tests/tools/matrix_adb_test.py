"""bmoe-matrix over adb. There is no phone here, so adb is one that runs commands on this machine."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

from bench_run_support import BMOE_MATRIX, CLI, DEMO, fast_sleep, run

STAND_IN = Path(__file__).with_name("adb_stand_in.py")


class Adb(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.scratch = Path(scratch.name)
        self.device = self.scratch / "device"
        (self.device / "my models").mkdir(parents=True)
        shutil.copy(DEMO, self.device / "my models" / "m.gguf")
        path = fast_sleep(self.scratch)
        (Path(path.split(":")[0]) / "adb").symlink_to(STAND_IN)
        self.environment = {"PATH": path, "ADB_ROOT": str(self.device)}
        self.file = self.scratch / "matrix.toml"
        self.out = self.scratch / "results"
        self.write()

    def write(self, top="tokens = 8", model="/data/local/tmp/my models/m.gguf"):
        self.file.write_text(f'models = ["{model}"]\n{top}\n[axes]\ncache-mb = [4, 8]\n'
                             "[entry]\ncpu_temp_c = -1\nmem_available_mib = 1\ncpu_idle_percent = -1\n")

    def command(self, *serial):
        return [BMOE_MATRIX, self.file, "--short", "--out", self.out, "--cli", CLI, "--adb", *serial]

    def matrix(self, *serial, **environment):
        return run(self.command(*serial), **(self.environment | environment))

    def records(self):
        return [json.loads(line) for line in (self.out / "matrix.jsonl").read_text().splitlines()]

    def test_a_matrix_runs_on_the_device_and_its_files_are_fetched(self):
        done = self.matrix("emulator-1")
        self.assertEqual(done.returncode, 0, done.stderr)
        for record in self.records():
            self.assertEqual((record["target"], record["exit_status"], record["model"]),
                             ("adb", 0, "/data/local/tmp/my models/m.gguf"))
            self.assertGreater(record["entry"]["mem_available_bytes"], 0)
            for kind in ("csv", "metrics", "log", "text"):
                self.assertTrue((self.out / record[kind]).stat().st_size > 0, kind)
        # The device keeps nothing of the runs.
        self.assertEqual(list((self.device / "bmoe-bench" / "runs").iterdir()), [])
        self.assertTrue(all(call.startswith("-s emulator-1 ") for call in (self.device / "calls").read_text().splitlines()))

    def test_a_device_that_loses_exit_statuses(self):
        self.write('tokens = 8\nflags = ["--cache-policy", "fifo"]')
        done = self.matrix(ADB_LOSES_STATUS="1")
        self.assertEqual(done.returncode, 1)
        self.assertEqual([record["exit_status"] for record in self.records()], [2, 2])
        self.assertIn("--cache-policy", self.records()[0]["error"])

    def test_an_interrupt_ends_the_run_on_the_device(self):
        self.write("tokens = 3000")
        process = subprocess.Popen(self.command(), stderr=subprocess.PIPE, text=True, start_new_session=True,
                                   env=os.environ | self.environment)
        pid = self.device / "bmoe-bench" / "runs" / "0001-base-forward-1.pid"
        while not pid.exists():
            self.assertIsNone(process.poll(), "ended before its first run")
            time.sleep(0.005)
        process.send_signal(signal.SIGTERM)
        said = process.communicate(timeout=60)[1]
        self.assertEqual(process.returncode, 130, said)
        self.assertEqual([record["exit_status"] for record in self.records()], [143])
        self.assertFalse(pid.exists())

    def test_refuses_what_cannot_run(self):
        for words, top, model, serial in ((["/data/none.gguf", "adb push"], "tokens = 8", "/data/none.gguf", ()),
                                          (["'phone-2' not found"], "tokens = 8", "/m.gguf", ("phone-2",)),
                                          (["memory_limit_mib"], "tokens = 8\nmemory_limit_mib = 99", "/m.gguf", ())):
            self.write(top, model)
            done = self.matrix(*serial)
            self.assertEqual(done.returncode, 1)
            for word in words:
                self.assertIn(word, done.stderr)
            shutil.rmtree(self.out, ignore_errors=True)

    def test_without_adb(self):
        empty = self.scratch / "empty"
        empty.mkdir()
        (empty / "python3").symlink_to(sys.executable)
        done = self.matrix(PATH=str(empty))
        self.assertEqual((done.returncode, "no adb on PATH" in done.stderr), (1, True), done.stderr)


if __name__ == "__main__":
    unittest.main()
