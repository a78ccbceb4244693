"""Every verdict fires on its own fault, and on nothing else."""

import statistics
import unittest

from analyze import cells, folder, verdicts
from analyze_support import BASE, FEWER, LOSSY, CopyTest


def slower(factor):
    def change(place, count, step):
        for name in ("wall_s", "stall_s", "expert_compute_s"):
            step[name] *= factor
    return change


def faults(per_token):
    def change(place, count, step):
        step["majflt"] = per_token
    return change


def climbing(place, count, step):
    used = step["hits"] + step["misses"]
    step["hits"] = used if place >= count * 3 // 4 else used // 4
    step["misses"] = used - step["hits"]


class VerdictTest(CopyTest):
    def base_compute(self):
        """Of the recorded base, seconds per token outside of stalls."""
        base = next(cell for cell in cells.group(folder.load(self.folder).runs) if cell.name == BASE)
        return statistics.fmean(second for run in base.compute()["wall_s less stall_s"] for second in run)

    # Each fault spoils one cell, and is to be found there by one verdict.

    def spoil_compute_rises(self):
        more = 2 * self.base_compute()
        def change(place, count, step):
            step["wall_s"] += more
            step["expert_compute_s"] += more
        self.change_steps(change, FEWER)
        return FEWER

    def spoil_majflt_jump(self):
        self.change_steps(faults(40), BASE, "reversed")
        return BASE

    def spoil_moved_on_reversal(self):
        self.change_steps(slower(1.6), BASE, "reversed")
        return BASE

    def spoil_entered_hot(self):
        def change(record):
            record["entry"]["cpu_temp_c"] = 71.5
            record["entry"]["thresholds"]["cpu_temp_c"] = 60
        self.change_records(change, FEWER, "forward")
        return FEWER

    def spoil_no_direct_io(self):
        self.change_csv(lambda lines: ["# o_direct=0" if line == "# o_direct=1" else line for line in lines], LOSSY, "forward")
        self.change_metrics("o_direct", 0, LOSSY, "forward")
        return LOSSY

    def spoil_short(self):
        self.keep_steps(200, BASE)
        return BASE

    def spoil_unsettled(self):
        self.change_steps(climbing, FEWER)
        return FEWER

    def test_what_was_recorded_has_no_verdict(self):
        self.assertEqual(self.judged(), set())

    def test_each_fault_has_its_verdict_and_no_other(self):
        fired = {}
        for name in verdicts.NAMES:
            self.folder = self.copy()
            cell = getattr(self, "spoil_" + name.replace("-", "_"))()
            found = self.judged()
            fired[name] = {other: sorted(where for verdict, where in found if verdict == other) for other in verdicts.NAMES}
            with self.subTest(fault=name):
                self.assertEqual(fired[name], {other: [cell] if other == name else [] for other in verdicts.NAMES})
        self.assertEqual(len(fired), 7)

    def test_verdicts_name_the_figures(self):
        self.spoil_majflt_jump()
        status, out, err = self.analyze(self.folder)
        self.assertEqual((status, err), (0, ""))
        self.assertRegex(out, r"\* \*\*majflt-jump\*\*, base: 40\.0 major faults per token in run \S+-base-reversed-1, and 0\.\d in run ")


class LimitsOfVerdictsTest(CopyTest):
    def test_compute_rises_by_either_figure(self):
        for name in ("expert_compute_s", "wall_s"):
            with self.subTest(name):
                self.folder = self.copy()
                def change(place, count, step, name=name):
                    step[name] += 1
                self.change_steps(change, FEWER)
                self.assertEqual(self.judged(), {("compute-rises", FEWER)})

    def test_compute_is_not_compared_between_other_cells(self):
        def change(record):
            record["axes"]["threads"] = "2"
        self.change_records(change, FEWER)
        self.change_steps(lambda place, count, step: step.update(wall_s=step["wall_s"] + 1), FEWER)
        self.assertEqual(self.judged(), set())

    def test_compute_that_was_not_measured_is_not_compared(self):
        def change(place, count, step):
            step.update(expert_compute_s=-1, stall_s=-1)
        self.change_steps(change, FEWER)
        self.assertEqual(self.judged(), set())

    def test_a_handful_of_faults_is_no_jump(self):
        self.change_steps(faults(4.9), BASE)
        self.assertEqual(self.judged(), set())

    def test_faults_that_all_cells_have_are_no_jump(self):
        self.change_steps(faults(40))
        self.change_steps(faults(390), BASE)
        self.assertEqual(self.judged(), set())

    def test_faults_are_compared_where_the_memory_is_the_same(self):
        self.change_records(lambda record: record["axes"].update({"cache-mb": "0"}), LOSSY)
        self.change_steps(faults(400), LOSSY)
        self.assertEqual(self.judged(), set())

    def test_faults_that_were_not_measured_are_not_compared(self):
        self.change_steps(faults(-1), BASE)
        self.change_steps(faults(3), FEWER)
        self.change_steps(faults(20), LOSSY)
        self.assertEqual(self.judged(), set())

    def test_lossy_cells_may_move(self):
        self.change_steps(slower(3), LOSSY, "reversed")
        self.assertEqual(self.judged(), set())
        _, out, _ = self.analyze(self.folder)
        self.assertIn("## Lossy cells by pass", out)
        rows = [line for line in out.splitlines() if line.startswith(f"| {LOSSY} | forward 1") or line.startswith(f"| {LOSSY} | reversed 1")]
        self.assertRegex(rows[0], r"\| \d+\.\d % \| 0\.0 % \| \d+\.\d % \|$")

    def test_without_a_reversed_pass_nothing_moved(self):
        self.change_records(lambda record: record.update({"pass": "forward", "round": 2}), direction="reversed")
        self.change_steps(slower(3), BASE, "forward")
        self.assertNotIn("moved-on-reversal", {name for name, _ in self.judged()})

    def test_waiting_in_vain_is_hot_too(self):
        def change(record):
            record["entry"].update(gave_up=True, waited_s=600.0, reason="900 MiB available, under 1024 MiB")
        self.change_records(change, LOSSY, "forward")
        self.assertEqual(self.judged(), {("entered-hot", LOSSY)})

    def test_a_temperature_without_threshold_is_not_judged(self):
        def change(record):
            record["entry"]["cpu_temp_c"] = 99
            record["entry"]["thresholds"]["cpu_temp_c"] = -1
        self.change_records(change)
        self.assertEqual(self.judged(), set())

    def test_failed_runs_without_direct_reads_are_named(self):
        self.change_metrics("o_direct", 0, BASE, "reversed")
        self.change_records(lambda record: record.update(exit_status=3, error="experts were read through the page cache"), BASE,
                            "reversed")
        self.assertEqual(self.judged(), {("no-direct-io", BASE)})

    def test_256_tokens_are_enough(self):
        self.keep_steps(255, BASE)
        self.assertNotIn(("short", BASE), self.judged())

    def test_without_a_cache_nothing_settles(self):
        self.change_steps(climbing, FEWER)
        self.change_csv(lambda lines: ["# cache_bytes=0" if line.startswith("# cache_bytes=") else line for line in lines], FEWER)
        self.assertEqual(self.judged(), set())


if __name__ == "__main__":
    unittest.main()
