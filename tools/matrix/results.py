"""The results folder: setup.json, matrix.jsonl and runs/. docs/benchmark-method.md has its format."""

import difflib
import fcntl
import json
import os
from pathlib import Path

from matrix.error import MatrixError


def _pretty(setup):
    return json.dumps(setup, indent=1, sort_keys=True).splitlines()


class Results:
    def __init__(self, folder, setup, on_note):
        """Opens or makes the folder. Refuses one that was made with another setup."""
        self.folder = Path(folder)
        self.on_note = on_note
        try:
            (self.folder / "runs").mkdir(parents=True, exist_ok=True)
            self._lines = open(self.folder / "matrix.jsonl", "a+b")
        except OSError as error:
            raise MatrixError(f"the results folder {folder} cannot be written: {error.strerror}") from None
        try:
            fcntl.flock(self._lines, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._lines.close()
            raise MatrixError(f"another bmoe-matrix is at work in {folder}: wait for it, or give another folder") from None
        try:
            self._check_setup(setup)
            self.done = self._read_done()
        except BaseException:
            self._lines.close()
            raise

    def close(self):
        self._lines.close()

    def out(self, run):
        """Path of a run's files, without what follows the dot."""
        return self.folder / "runs" / run

    def append(self, record):
        self._lines.write(json.dumps(record).encode() + b"\n")
        self._lines.flush()
        os.fsync(self._lines.fileno())

    def _check_setup(self, setup):
        path = self.folder / "setup.json"
        if not path.exists():
            if self._lines.seek(0, os.SEEK_END) > 0:
                raise MatrixError(f"{self.folder} has results but no setup.json, so nobody can tell of what: give another folder")
            part = path.with_suffix(".part")
            part.write_text("\n".join(_pretty(setup)) + "\n", encoding="utf-8")
            part.replace(path)
            return
        try:
            before = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise MatrixError(f"{path} cannot be read ({error}): give another folder") from None
        now = json.loads(json.dumps(setup))
        if before != now:
            difference = difflib.unified_diff(_pretty(before), _pretty(now), f"{path}", "now", lineterm="", n=1)
            raise MatrixError(f"{self.folder} was begun with another setup; its runs and new ones could not be compared. Give another "
                              "folder, or undo the difference:\n" + "\n".join(difference))

    def _read_done(self):
        """Names of the runs that need not be repeated."""
        self._lines.seek(0)
        content = self._lines.read()
        whole = content[:content.rfind(b"\n") + 1]
        if len(whole) < len(content):
            self.on_note("the last line of matrix.jsonl was cut off; its run is repeated")
            self._lines.truncate(len(whole))
        done = set()
        for number, line in enumerate(whole.splitlines(), 1):
            try:
                record = json.loads(line)
                name, is_good = record["run"], record["exit_status"] == 0
            except (ValueError, KeyError, TypeError):
                self.on_note(f"line {number} of matrix.jsonl is no run; it is ignored")
                continue
            (done.add if is_good else done.discard)(name)
        return done
