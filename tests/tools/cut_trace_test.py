#!/usr/bin/env python3
"""What cut_trace.py keeps of a route trace, and what it refuses."""
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

CUT_TRACE = Path(__file__).resolve().parents[2] / "tools" / "cut_trace.py"

TRACE = """\
# route_trace v1
# model=a model.gguf arch=x n_layer=3 n_expert=16 n_expert_used=1
# layer=0 expert_bytes=1000 block=1
# layer=1 expert_bytes=2000 block=2
# layer=2 expert_bytes=3000 block=3 scores=1
turn,phase,step,layer,slot,expert,weight,residency,expert_bytes
0,0,0,0,0,12,0.5,0,1000
0,0,0,1,0,13,0.5,0,2000
0,0,0,2,0,2,0.5,0,3000
0,1,0,0,0,2,0.5,0,1000
0,1,0,1,0,1,0.5,1,0
0,1,0,2,0,0,0.5,0,3000
"""

FIRST_TWO = """\
# route_trace v1
# cut to the first 2 of 3 expert layers
# model=a model.gguf arch=x n_layer=2 n_expert=16 n_expert_used=1
# layer=0 expert_bytes=1000 block=1
# layer=1 expert_bytes=2000 block=2
turn,phase,step,layer,slot,expert,weight,residency,expert_bytes
0,0,0,0,0,12,0.5,0,1000
0,0,0,1,0,13,0.5,0,2000
0,1,0,0,0,2,0.5,0,1000
0,1,0,1,0,1,0.5,1,0
"""


class CutTrace(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.trace = Path(self.folder.name, "a.route.csv")
        self.out = Path(self.folder.name, "out.route.csv")
        self.trace.write_text(TRACE)

    def cut(self, layers):
        return subprocess.run([sys.executable, "-B", CUT_TRACE, "--layers", str(layers), self.trace, self.out],
                              capture_output=True, text=True)

    def refusal(self, layers=2):
        run = self.cut(layers)
        self.assertEqual(run.returncode, 1)
        self.assertNotIn("Traceback", run.stderr)
        return run.stderr

    def test_keeps_the_first_layers_and_says_so(self):
        self.assertEqual(self.cut(2).returncode, 0)
        self.assertEqual(self.out.read_text(), FIRST_TWO)

    def test_reads_lines_that_end_as_on_windows(self):
        self.trace.write_bytes(TRACE.replace("\n", "\r\n").encode())
        self.assertEqual(self.cut(2).returncode, 0)
        self.assertEqual(self.out.read_text(), FIRST_TWO)

    def test_refuses_more_layers_than_there_are(self):
        for layers in (0, 4):
            self.assertIn("a.route.csv has 3 expert layers", self.refusal(layers))
            self.assertFalse(self.out.exists())

    def test_never_overwrites_a_file(self):
        self.out.write_text("mine")
        self.assertIn(str(self.out), self.refusal())
        self.assertEqual(self.out.read_text(), "mine")

    def test_refuses_what_is_no_trace(self):
        self.trace.write_text("0,1,0,0,0,2\n")
        self.assertIn("line 1: is not '# route_trace v1'", self.refusal())
        self.trace.write_text("# route_trace v1\n")
        self.assertIn("no header with model=", self.refusal())
        self.trace.write_text(TRACE.replace(" n_layer=3", ""))
        self.assertIn("line 2: n_layer is missing", self.refusal())
        self.trace.write_text(TRACE.replace("0,1,0,1,0,1,0.5,1,0", "0,1,0"))
        self.assertIn("line 11: has no layer", self.refusal())
        self.trace.write_text(TRACE.replace("# model", "# name"))
        self.assertIn("line 7: rows begin before", self.refusal())


if __name__ == "__main__":
    unittest.main()
