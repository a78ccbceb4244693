"""The program's output: figures that can be checked by hand, the files, the plots."""

import csv
import os
import subprocess
import sys
import unittest
from unittest.mock import patch

from analyze import distribution, folder, matplotlib_python, settling
from analyze.tables import speed_text
from analyze_support import BASE, RECORDED, CopyTest, run_program

_PLOTS = {"throughput.png", "token-times.png", "hit-rate.png", "bound.png", "memory-floor.png"}


class DistributionTest(unittest.TestCase):
    def test_figures_of_known_times(self):
        # 1 to 20 tokens per second.
        found = distribution.speed([1 / rate for rate in range(20, 0, -1)])
        figures = (found.median, found.p5, found.p95, found.least, found.most)
        for figure, expected in zip(figures, (10, 1, 19, 1, 20)):
            self.assertAlmostEqual(figure, expected)
        self.assertAlmostEqual(found.mean, 20 / sum(1 / rate for rate in range(1, 21)))

    def test_equal_tokens_have_no_interval(self):
        [(low, high)] = distribution.intervals([[0.5] * 40, [0.5] * 40], "seed", lambda seconds: (len(seconds) / sum(seconds),))
        self.assertEqual((low, high), (2, 2))

    def test_intervals_cover_and_repeat(self):
        runs = [[1 + (token % 7) / 10 for token in range(100)] for _ in range(2)]
        mean = lambda values: (sum(values) / len(values),)
        [(low, high)] = distribution.intervals(runs, "seed", mean)
        self.assertLess(low, mean(runs[0])[0])
        self.assertGreater(high, mean(runs[0])[0])
        self.assertEqual(distribution.intervals(runs, "seed", mean), [(low, high)])

    def test_three_runs_are_resampled_as_runs(self):
        runs = [[1.0] * 50, [2.0] * 50, [3.0] * 50]
        self.assertEqual([distribution.way(runs[:count]) for count in (1, 2, 3)], ["blocks", "blocks", "runs"])
        [(low, high)] = distribution.intervals(runs, "seed", lambda values: (sum(values) / len(values),))
        self.assertEqual((low, high), (1, 3))

    def test_runs_shorter_than_a_block(self):
        self.assertEqual(distribution.intervals([[1.0, 1.0]], "seed", lambda values: (values[0],)), [(1, 1)])


class SettlingTest(unittest.TestCase):
    def test_warm_up_ends_where_the_hit_rate_is_that_of_the_second_half(self):
        rates = [0.1, 0.3, 0.5, 0.7, 0.7, 0.7, 0.7, 0.7, 0.7, 0.7]
        self.assertEqual(settling.warm_up(rates, 160), (48, "until the hit rate settled"))
        self.assertEqual(settling.warm_up([0.7] * 10, 160), (8, "first tokens"))
        self.assertEqual(settling.warm_up([], 160), (8, "first tokens"))
        self.assertEqual(settling.warm_up([], 5), (2, "first tokens"))
        self.assertEqual(settling.warm_up([0.1] * 5 + [0.7] * 5, 160)[0], 80)

    def test_climb(self):
        self.assertIsNone(settling.climb([0.5] * 7))
        self.assertFalse(settling.climb([0.1, 0.2, 0.3, 0.4, 0.6, 0.6, 0.61, 0.61])[2])
        self.assertTrue(settling.climb([0.1, 0.2, 0.3, 0.4, 0.5, 0.5, 0.6, 0.6])[2])
        # Two blocks that differ among themselves as much as the quarters do.
        self.assertFalse(settling.climb([0, 0, 0, 0, 0.4, 0.6, 0.45, 0.65])[2])

    def test_blocks_without_lookups_have_no_rate(self):
        self.assertEqual(settling.block_rates([0.0] * 40, [0.0] * 40), [])
        self.assertEqual(settling.block_rates([-1.0] * 40, [-1.0] * 40), [])
        self.assertEqual(settling.block_rates([1.0] * 40, [3.0] * 40), [0.25, 0.25])


class ReportTest(CopyTest):
    def spoil(self):
        self.change_steps(lambda place, count, step: step.update(majflt=50), BASE, "reversed")

    def test_report_is_reproducible(self):
        self.assertEqual(self.analyze(RECORDED), self.analyze(self.folder))

    def test_cells_agree_with_the_engine(self):
        """Over all tokens the mean is what the run itself said at its end."""
        for record in self.records():
            text = (self.folder / record["log"]).read_text()
            said = float(text.split(" s/token (", 1)[1].split(" tok/s", 1)[0])
            run = next(run for run in folder.load(self.folder).runs if run.name == record["run"])
            self.assertAlmostEqual(run.csv.steps / sum(run.csv.columns["wall_s"]) / said, 1, delta=0.002)

    def test_strict(self):
        self.assertEqual(self.analyze(self.folder, "--strict")[0], 0)
        self.spoil()
        self.assertEqual(self.analyze(self.folder)[0], 0)
        self.assertEqual(self.analyze(self.folder, "--strict")[0], 3)

    def test_out_folder_without_matplotlib(self):
        self.spoil()
        out = self.scratch / "new" / "report"
        with patch.object(matplotlib_python, "is_here", lambda: False), patch.object(matplotlib_python, "go_on_there", lambda argv: None):
            status, printed, err = self.analyze(self.folder, "--out", out, "--strict")
        self.assertEqual(status, 3)
        self.assertRegex(err, "^plots are left out, since .* has no matplotlib: install python3-matplotlib\n$")
        self.assertIn("verdict: majflt-jump, base: 50.0 major faults", printed)
        self.assertEqual({path.name for path in out.iterdir()}, {"report.md", "cells.csv", "verdicts.csv"})
        self.assertEqual((out / "report.md").read_text(), self.analyze(self.folder)[1])
        with open(out / "cells.csv", encoding="utf-8", newline="") as file:
            cells = list(csv.DictReader(file))
        self.assertEqual([cell["cell"] for cell in cells], ["base", "n-expert-used=2", "drop-cold-experts=0.75"])
        self.assertEqual([cell["verdicts"] for cell in cells], ["majflt-jump", "", ""])
        self.assertLess(float(cells[0]["tok_per_s_mean_low"]), float(cells[0]["tok_per_s_mean"]))
        self.assertGreater(float(cells[2]["dropped_rate"]), 0)
        with open(out / "verdicts.csv", encoding="utf-8", newline="") as file:
            self.assertEqual([row["verdict"] for row in csv.DictReader(file)], ["majflt-jump"])

    def test_plots(self):
        pythons = [python for python in (sys.executable, "/usr/bin/python3") if os.access(python, os.X_OK)]
        if all(subprocess.run([python, "-c", "import matplotlib"], capture_output=True, check=False).returncode for python in pythons):
            self.skipTest("there is no matplotlib")
        self.spoil()
        out = self.scratch / "plots"
        ended = run_program(self.folder, "--out", out)
        # matplotlib itself may say that it makes its font cache.
        self.assertEqual((ended.returncode, "left out" in ended.stderr), (0, False), ended.stderr)
        self.assertEqual({path.name for path in out.glob("*.png")}, _PLOTS)
        for name in _PLOTS:
            self.assertEqual((out / name).read_bytes()[:8], b"\x89PNG\r\n\x1a\n")

    def test_two_models_are_told_apart(self):
        path = self.folder / "matrix.jsonl"
        other = path.read_text().replace("models/demo-moe.gguf", "models/other.gguf").replace('"run": "', '"run": "other-')
        path.write_text(path.read_text() + other)
        _, out, _ = self.analyze(self.folder)
        self.assertIn("Model: demo-moe, other.\n", out)
        self.assertIn("| demo-moe: base | 2 |", out)
        self.assertIn("| other: base | 2 |", out)

    def test_speeds_have_three_digits(self):
        self.assertEqual([speed_text(speed) for speed in (0.8234, 9.361, 12.99, 353.891, 1316.4)],
                         ["0.823", "9.36", "12.99", "353.9", "1316"])


if __name__ == "__main__":
    unittest.main()
