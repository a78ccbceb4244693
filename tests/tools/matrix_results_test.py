import json
import tempfile
import unittest
from pathlib import Path

from matrix.error import MatrixError
from matrix.results import Results


class Folder(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = Path(scratch.name) / "results"
        self.notes = []

    def open(self, setup=None):
        results = Results(self.folder, setup or {"tokens": 256}, self.notes.append)
        self.addCleanup(results.close)
        return results

    def fill(self, *records):
        results = self.open()
        for name, status in records:
            results.append({"run": name, "exit_status": status})
        results.close()

    def lines(self):
        return (self.folder / "matrix.jsonl").read_bytes()

    def test_runs_that_ended_well_are_done_and_failed_ones_are_not(self):
        self.fill(("a", 0), ("b", 1), ("c", 1), ("c", 0))
        self.assertEqual(self.open().done, {"a", "c"})

    def test_a_line_cut_off_is_removed_with_a_note(self):
        self.fill(("a", 0), ("b", 0))
        path = self.folder / "matrix.jsonl"
        path.write_bytes(self.lines()[:-3])
        results = self.open()
        self.assertEqual(results.done, {"a"})
        self.assertIn("cut off", self.notes[0])
        results.append({"run": "b", "exit_status": 0})
        self.assertEqual([json.loads(line)["run"] for line in self.lines().splitlines()], ["a", "b"])

    def test_a_line_that_is_no_run_is_ignored_with_a_note(self):
        self.fill(("a", 0))
        (self.folder / "matrix.jsonl").write_bytes(b'nonsense\n[1]\n{"run": "x"}\n' + self.lines())
        self.assertEqual(self.open().done, {"a"})
        self.assertEqual(len(self.notes), 3)

    def test_another_setup_is_refused_with_the_difference(self):
        self.fill(("a", 0))
        with self.assertRaises(MatrixError) as caught:
            self.open({"tokens": 512})
        self.assertIn('- "tokens": 256', str(caught.exception))
        self.assertIn('+ "tokens": 512', str(caught.exception))
        self.assertEqual(self.open().done, {"a"})

    def test_results_of_nobody_knows_what_are_refused(self):
        self.fill(("a", 0))
        (self.folder / "setup.json").unlink()
        with self.assertRaisesRegex(MatrixError, "no setup.json"):
            self.open()
        (self.folder / "setup.json").write_text("{")
        with self.assertRaisesRegex(MatrixError, "cannot be read"):
            self.open()

    def test_a_folder_has_one_user_at_a_time(self):
        self.open()
        with self.assertRaisesRegex(MatrixError, "another bmoe-matrix"):
            self.open()

    def test_a_folder_that_cannot_be_made_is_named(self):
        self.folder.write_text("a file")
        with self.assertRaisesRegex(MatrixError, "results"):
            self.open()


if __name__ == "__main__":
    unittest.main()
