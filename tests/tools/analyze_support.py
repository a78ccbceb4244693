"""A recorded matrix, and copies of it that tests spoil."""

import gzip
import io
import json
import shutil
import subprocess
import sys
import tempfile
import unittest
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

from analyze import cells, command, folder, verdicts

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
RECORDED = HERE / "data" / "demo-matrix"
PROGRAM = ROOT / "tools" / "bmoe-analyze"

BASE, FEWER, LOSSY = "base", "n-expert-used=2", "drop-cold-experts=0.75"


class CopyTest(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.scratch = Path(scratch.name)
        self.folder = self.copy()

    def copy(self):
        folder_copy = Path(tempfile.mkdtemp(dir=self.scratch)) / "results"
        shutil.copytree(RECORDED, folder_copy)
        return folder_copy

    def records(self):
        return [json.loads(line) for line in (self.folder / "matrix.jsonl").read_text().splitlines()]

    def change_records(self, change, cell=None, direction=None):
        """`change` gets each record and may change it."""
        records = self.records()
        for record in records:
            if cell in (None, record["cell"]) and direction in (None, record["pass"]):
                change(record)
        (self.folder / "matrix.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))

    def chosen(self, cell=None, direction=None):
        return [record for record in self.records() if cell in (None, record["cell"]) and direction in (None, record["pass"])]

    def change_csv(self, change, cell=None, direction=None):
        """`change` gets the lines of each run's CSV and gives others."""
        for record in self.chosen(cell, direction):
            path = self.folder / (record["csv"] + ".gz")
            lines = change(gzip.decompress(path.read_bytes()).decode().splitlines())
            path.write_bytes(gzip.compress("".join(line + "\n" for line in lines).encode(), 1))

    def change_steps(self, change, cell=None, direction=None):
        """`change` gets the place of a decode step, from 0, how many there are, and its figures; it may change them."""
        def change_lines(lines):
            names = next(line for line in lines if line.startswith("row,")).split(",")
            count = sum(line.startswith("token,") for line in lines)
            changed, place = [], 0
            for line in lines:
                if line.startswith("token,"):
                    figures = {name: float(value) for name, value in zip(names[1:], line.split(",")[1:])}
                    change(place, count, figures)
                    line = ",".join(["token", *(f"{figures[name]:.9g}" for name in names[1:])])
                    place += 1
                changed.append(line)
            return changed
        self.change_csv(change_lines, cell, direction)

    def change_metrics(self, name, value, cell=None, direction=None):
        for record in self.chosen(cell, direction):
            path = self.folder / record["metrics"]
            lines = [f"{name}={value}" if line.startswith(f"{name}=") else line for line in path.read_text().splitlines()]
            path.write_text("\n".join(lines) + "\n")

    def keep_steps(self, kept, cell, direction=None):
        """As if the run had ended after so many."""
        def cut(lines):
            tokens = [line for line in lines if line.startswith("token,")]
            summary = lines[-1].split(",")
            summary[2] = str(kept)
            return [line for line in lines[:-1] if not line.startswith("token,")] + tokens[:kept] + [",".join(summary)]
        self.change_csv(cut, cell, direction)

    def judged(self):
        """{(verdict, cell)}; fails if a run cannot be read."""
        found = folder.load(self.folder)
        self.assertEqual([run.reason for run in found.failed if run.is_damaged], [])
        return {(verdict.name, verdict.cell) for verdict in verdicts.judge(cells.group(found.runs), found.failed)}

    def analyze(self, *arguments):
        """(exit status, stdout, stderr) in this process."""
        out, err = io.StringIO(), io.StringIO()
        with redirect_stdout(out), redirect_stderr(err):
            status = command.main([str(argument) for argument in arguments])
        return status, out.getvalue(), err.getvalue()


def run_program(*arguments, python=sys.executable):
    return subprocess.run([python, str(PROGRAM), *map(str, arguments)], capture_output=True, text=True, check=False)
