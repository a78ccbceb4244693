"""The committed tables are what the committed measurements give."""

import subprocess
import unittest

from analyze_support import RECORDED, ROOT, CopyTest

_SCRIPT = ROOT / "scripts" / "bench-tables.sh"


def run(*arguments):
    return subprocess.run([str(_SCRIPT), *map(str, arguments)], capture_output=True, text=True, check=False)


class TablesTest(CopyTest):
    def setUp(self):
        super().setUp()
        self.data, self.tables = self.folder.parent, self.scratch / "tables"

    def test_committed_tables(self):
        ended = run("--check")
        self.assertEqual((ended.returncode, ended.stderr), (0, ""))

    def test_tables_are_written_and_pass_the_check(self):
        ended = run("--check", self.data, self.tables)
        self.assertEqual(ended.returncode, 1)
        self.assertIn("results.md is not what the data give: run make tables", ended.stderr)
        ended = run(self.data, self.tables)
        self.assertEqual((ended.returncode, ended.stderr), (0, ""))
        self.assertEqual((self.tables / "results.md").read_text(), self.analyze(RECORDED)[1])
        self.assertEqual(run("--check", self.data, self.tables).returncode, 0)

    def test_a_changed_table_fails_the_check(self):
        run(self.data, self.tables)
        with open(self.tables / "results.md", "a", encoding="utf-8") as file:
            file.write("\n")
        self.assertEqual(run("--check", self.data, self.tables).returncode, 1)

    def test_a_table_without_data_fails(self):
        run(self.data, self.tables)
        (self.tables / "old.md").write_text("")
        for arguments in (("--check",), ()):
            ended = run(*arguments, self.data, self.tables)
            self.assertEqual(ended.returncode, 1)
            self.assertIn("old.md has no data in", ended.stderr)

    def test_damaged_data_fail(self):
        run(self.data, self.tables)
        next((self.folder / "runs").glob("*.metrics")).unlink()
        ended = run(self.data, self.tables)
        self.assertEqual(ended.returncode, 1)
        self.assertIn("results cannot be analysed", ended.stderr)

    def test_no_folder(self):
        ended = run(self.scratch / "nothing", self.tables)
        self.assertEqual(ended.returncode, 1)
        self.assertIn("there is no folder", ended.stderr)


if __name__ == "__main__":
    unittest.main()
