"""Bad input: one clear sentence each, never a traceback; and nothing of it counts as zero."""

import gzip
import shutil
import unittest
from unittest.mock import patch

from analyze import distribution
from analyze_support import BASE, FEWER, LOSSY, CopyTest, run_program


class InputTest(CopyTest):
    def setUp(self):
        super().setUp()
        # The figures are not what is tested here.
        few = patch.object(distribution, "RESAMPLES", 20)
        few.start()
        self.addCleanup(few.stop)

    def assert_refused(self, pattern, *arguments):
        status, out, err = self.analyze(*arguments or (self.folder,))
        self.assertEqual((status, out), (1, ""))
        self.assertRegex(err, pattern)
        self.assertEqual(err.count("\n"), 1, err)

    def assert_one_run_lost(self, pattern):
        """The other runs are analysed; the one that is lost is said to be, with an exit status."""
        status, out, err = self.analyze(self.folder)
        self.assertEqual(status, 1)
        self.assertRegex(err, "^error: .*" + pattern)
        self.assertEqual(err.count("\n"), 1, err)
        self.assertIn("## Failed runs", out)
        self.assertRegex(out, rf"\| {BASE} \| 1 \|")
        self.assertRegex(out, rf"\| {FEWER} \| 2 \|")

    def base_file(self, kind):
        return self.folder / self.chosen(BASE, "forward")[0][kind]

    def change_base_csv(self, change):
        path = self.base_file("csv")
        path = path.with_name(path.name + ".gz")
        path.write_bytes(gzip.compress(change(gzip.decompress(path.read_bytes()).decode()).encode()))

    def test_no_folder(self):
        self.assert_refused("there is no folder .*/nothing: give the folder", self.scratch / "nothing")

    def test_a_file_for_a_folder(self):
        self.assert_refused("there is no folder .*matrix.jsonl: give the folder", self.folder / "matrix.jsonl")

    def test_empty_folder(self):
        shutil.rmtree(self.folder)
        self.folder.mkdir()
        self.assert_refused("has no matrix.jsonl: give the folder")

    def test_empty_list_of_runs(self):
        (self.folder / "matrix.jsonl").write_text("")
        self.assert_refused("matrix.jsonl has no run: let bmoe-matrix finish")

    def test_cut_off_last_line_is_left_out_with_a_note(self):
        path = self.folder / "matrix.jsonl"
        path.write_text(path.read_text()[:-20])
        status, out, err = self.analyze(self.folder)
        self.assertEqual((status, err), (0, "note: matrix.jsonl: the last line was cut off; its run is left out\n"))
        self.assertIn("* matrix.jsonl: the last line was cut off", out)

    def test_lines_that_are_no_runs_are_left_out_with_a_note(self):
        path = self.folder / "matrix.jsonl"
        path.write_text("no json\n[]\n" + '{"run": "x", "cell": 3}\n' + path.read_text())
        status, out, err = self.analyze(self.folder)
        self.assertEqual(status, 0)
        self.assertEqual(err.splitlines(), ["note: matrix.jsonl: line 1 is no run; it is left out",
                                            "note: matrix.jsonl: line 2 is no run; it is left out",
                                            "note: matrix.jsonl: line 3 has no cell, or not of the right kind; it is left out"])

    def test_a_repeated_run_counts_once_and_the_last_counts(self):
        path = self.folder / "matrix.jsonl"
        lines = path.read_text().splitlines(keepends=True)
        failed = lines[0].replace('"exit_status": 0', '"exit_status": 1').replace('"error": ""', '"error": "it broke"')
        path.write_text(failed + "".join(lines))
        status, out, err = self.analyze(self.folder)
        self.assertEqual((status, err), (0, ""))
        self.assertNotIn("it broke", out)
        self.assertRegex(out, rf"\| {BASE} \| 2 \|")

    def test_failed_runs_are_listed_and_count_nowhere(self):
        self.change_records(lambda record: record.update(exit_status=1, error="no memory | none"), BASE, "forward")
        self.base_file("metrics").unlink()
        self.base_file("csv").with_suffix(".csv.gz").unlink()
        status, out, err = self.analyze(self.folder)
        self.assertEqual((status, err), (0, ""))
        self.assertRegex(out, r"base-forward-1 \| base \| no memory \\\| none \|")
        self.assertRegex(out, rf"\| {BASE} \| 1 \|")

    def test_all_runs_failed(self):
        self.change_records(lambda record: record.update(exit_status=1, error="no memory"))
        self.assert_refused("has no run to analyse, since all 6 failed: .*-base-forward-1: no memory; ")

    def test_a_cell_all_of_whose_runs_failed(self):
        self.change_records(lambda record: record.update(exit_status=1, error="no memory"), BASE)
        for record in self.chosen(BASE):
            for kind in ("csv", "metrics", "log"):
                for path in (self.folder / "runs").glob((self.folder / record[kind]).name + "*"):
                    path.unlink()
        status, out, err = self.analyze(self.folder)
        self.assertEqual((status, err), (0, ""))
        self.assertEqual(out.count("base-forward-1 | base | no memory |"), 1)
        self.assertEqual(out.count("base-reversed-1 | base | no memory |"), 1)
        self.assertNotIn(f"| {BASE} | ", out.split("## Failed runs")[0])
        self.assertEqual(self.judged(), set())

    def test_only_a_cut_off_line(self):
        path = self.folder / "matrix.jsonl"
        path.write_text(path.read_text().splitlines()[0][:-20])
        self.assert_refused("matrix.jsonl has no run: let bmoe-matrix finish")

    def test_paths_with_spaces(self):
        spaced = self.folder.rename(self.folder.parent / "my results")
        ended = run_program(spaced, "--out", self.scratch / "my report")
        self.assertEqual(ended.returncode, 0, ended.stderr)
        self.assertIn("my report/report.md", ended.stdout)
        self.assertIn("## Throughput", (self.scratch / "my report" / "report.md").read_text())

    def test_missing_files(self):
        for kind in ("csv", "metrics", "log"):
            with self.subTest(kind):
                self.folder = self.copy()
                path = self.base_file(kind)
                (path if path.exists() else path.with_name(path.name + ".gz")).unlink()
                self.assert_one_run_lost(rf"base-forward-1\.{kind} is missing: ")

    def test_cut_off_csv(self):
        for what, cut, pattern in (
                ("in a line", lambda text: text[:len(text) // 2].rpartition("\n")[0] + "\ntoken,0,9", r"csv\.gz: line \d+, the last, was cut off"),
                ("in a line that ends", lambda text: text[:len(text) // 2].rpartition("\n")[0] + "\ntoken,0,9\n", r"line \d+ has 3 of 24 values"),
                ("after a line", lambda text: text[:text.rindex("summary")], "ends without its summary row"),
                ("in the middle", lambda text: text.replace(text[text.index("\ntoken,0,7,"):text.index("\ntoken,0,8,")], ""),
                 "has 398 decode steps and its summary counts 399"),
                ("no steps", lambda text: text[:text.index("token,0,1,")] + "summary,0,0" + ",0" * 21 + "\n", "has no decode step")):
            with self.subTest(what):
                self.folder = self.copy()
                self.change_base_csv(cut)
                self.assert_one_run_lost(pattern)

    def test_other_csv(self):
        for what, change, pattern in (
                ("version", lambda text: text.replace("# bmoe_csv v1", "# bmoe_csv v2"), "is version 2 of the CSV and this program reads version 1"),
                ("no CSV of ours", lambda text: "a,b\n1,2\n", "does not begin with '# bmoe_csv v'"),
                ("empty", lambda text: "", "does not begin with"),
                ("column", lambda text: text.replace(",majflt,", ",faults,"), "names no column majflt"),
                ("no number", lambda text: text.replace("\ntoken,0,5,", "\ntoken,0,five,"), r"line \d+ has no number in column tokens"),
                ("infinite", lambda text: text.replace("\ntoken,0,5,", "\ntoken,0,inf,"), r"line \d+ has no number in column tokens")):
            with self.subTest(what):
                self.folder = self.copy()
                self.change_base_csv(change)
                self.assert_one_run_lost(pattern)

    def test_damaged_compression(self):
        path = self.base_file("csv").with_suffix(".csv.gz")
        path.write_bytes(path.read_bytes()[:2000])
        self.assert_one_run_lost(r"base-forward-1\.csv\.gz cannot be read \(")

    def test_other_metrics(self):
        path = self.base_file("metrics")
        path.write_text(path.read_text().replace("bench_run=1", "bench_run=9"))
        self.assert_one_run_lost("is version 9 of the metrics")
        path.write_text("nothing\n")
        self.assert_one_run_lost("has no line bench_run=")

    def test_entry_states_of_strange_kinds(self):
        def change(record):
            record["entry"] = {"cpu_temp_c": "warm", "thresholds": "none"}
        self.change_records(change)
        status, _, err = self.analyze(self.folder)
        self.assertEqual((status, err), (0, ""))

    def test_uncompressed_files_are_read_the_same(self):
        before = self.analyze(self.folder)
        for record in self.records():
            path = self.folder / (record["csv"] + ".gz")
            path.with_suffix("").write_bytes(gzip.decompress(path.read_bytes()))
            path.unlink()
        self.assertEqual(self.analyze(self.folder), before)

    def test_what_was_not_measured_is_a_dash(self):
        self.change_metrics("peak_rss_bytes", -1, LOSSY, "forward")
        _, out, _ = self.analyze(self.folder)
        self.assertRegex(out, rf"\| {LOSSY} \| forward 1 \| - \|")

    def test_an_out_folder_that_is_a_file(self):
        (self.scratch / "file").write_text("")
        ended = run_program(self.folder, "--out", self.scratch / "file")
        self.assertEqual(ended.returncode, 1)
        self.assertRegex(ended.stderr, r"^error: .*file cannot be written \(.*\): give another folder\n$")

    def test_a_wrong_command_line(self):
        ended = run_program()
        self.assertEqual(ended.returncode, 2)
        self.assertNotIn("Traceback", ended.stderr)


if __name__ == "__main__":
    unittest.main()
