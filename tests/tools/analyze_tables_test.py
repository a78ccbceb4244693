"""The committed tables are what the committed measurements give."""

import os
import subprocess
import sys
import unittest

from analyze_support import RECORDED, ROOT, CopyTest

_SCRIPT = ROOT / "scripts" / "bench-tables.sh"


class TablesTest(CopyTest):
    def setUp(self):
        super().setUp()
        self.data, self.tables = self.folder.parent, self.scratch / "tables"
        # The interpreter itself, since the python3 on PATH may be another.
        (self.scratch / "bin").mkdir()
        (self.scratch / "bin" / "python3").symlink_to(sys.executable)

    def run_script(self, *arguments):
        path = f"{self.scratch / 'bin'}:{os.environ['PATH']}"
        return subprocess.run([str(_SCRIPT), *map(str, arguments)], env={**os.environ, "PATH": path}, capture_output=True, text=True,
                              check=False)

    def test_committed_tables(self):
        ended = self.run_script("--check")
        self.assertEqual((ended.returncode, ended.stderr), (0, ""))

    def test_tables_are_written_and_pass_the_check(self):
        ended = self.run_script("--check", self.data, self.tables)
        self.assertEqual(ended.returncode, 1)
        self.assertIn("results.md is not what the data give: run make tables", ended.stderr)
        ended = self.run_script(self.data, self.tables)
        self.assertEqual((ended.returncode, ended.stderr), (0, ""))
        self.assertEqual((self.tables / "results.md").read_text(), self.analyze(RECORDED)[1])
        self.assertEqual(self.run_script("--check", self.data, self.tables).returncode, 0)

    def test_a_changed_table_fails_the_check(self):
        self.run_script(self.data, self.tables)
        with open(self.tables / "results.md", "a", encoding="utf-8") as file:
            file.write("\n")
        self.assertEqual(self.run_script("--check", self.data, self.tables).returncode, 1)

    def test_a_table_without_data_fails(self):
        self.run_script(self.data, self.tables)
        (self.tables / "old.md").write_text("")
        for arguments in (("--check",), ()):
            ended = self.run_script(*arguments, self.data, self.tables)
            self.assertEqual(ended.returncode, 1)
            self.assertIn("old.md has no data in", ended.stderr)

    def test_damaged_data_fail(self):
        self.run_script(self.data, self.tables)
        next((self.folder / "runs").glob("*.metrics")).unlink()
        ended = self.run_script(self.data, self.tables)
        self.assertEqual(ended.returncode, 1)
        self.assertIn("results cannot be analysed", ended.stderr)

    def test_no_data_is_said(self):
        (self.scratch / "none").mkdir()
        ended = self.run_script(self.scratch / "none", self.tables)
        self.assertEqual((ended.returncode, ended.stderr), (0, ""))
        self.assertIn("none holds no results folder", ended.stdout)

    def test_no_folder(self):
        ended = self.run_script(self.scratch / "nothing", self.tables)
        self.assertEqual(ended.returncode, 1)
        self.assertIn("there is no folder", ended.stderr)


if __name__ == "__main__":
    unittest.main()
