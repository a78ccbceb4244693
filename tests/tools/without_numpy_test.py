#!/usr/bin/env python3
"""What the tools that need numpy say where there is none. Whether this python3 has it makes no difference."""
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

TOOLS = Path(__file__).resolve().parents[2] / "tools"


class WithoutNumpy(unittest.TestCase):
    def test_one_sentence_and_exit_status_1(self):
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "numpy.py").write_text("raise ImportError('there is none')\n", encoding="utf-8")
            for tool in ("make_tiny_moe.py", "make_synth.py"):
                with self.subTest(tool=tool):
                    run = subprocess.run([sys.executable, "-B", TOOLS / tool, "--help"], capture_output=True, text=True,
                                         env={**os.environ, "PYTHONPATH": folder})
                    self.assertEqual((run.returncode, run.stdout), (1, ""))
                    self.assertRegex(run.stderr, rf"\A{tool}: numpy cannot be imported by .*install python3-numpy.*\n\Z")


if __name__ == "__main__":
    unittest.main()
