"""A results folder of bmoe-matrix: matrix.jsonl and runs/."""

import json
from dataclasses import dataclass, field
from pathlib import Path

from analyze import engine_csv, run_files
from analyze.error import AnalyzeError

_NEEDED = {"run": str, "cell": str, "model": str, "axes": dict, "pass": str, "round": int, "tokens": int, "entry": dict,
           "exit_status": int, "csv": str, "metrics": str, "log": str}


@dataclass(frozen=True)
class Run:
    record: dict
    csv: engine_csv.EngineCsv
    metrics: dict
    log: run_files.Log

    @property
    def name(self):
        return self.record["run"]

    @property
    def direction(self):
        return self.record["pass"]

    @property
    def generated(self):
        # The first token comes from the prompt.
        return self.csv.steps + 1


@dataclass(frozen=True)
class FailedRun:
    record: dict
    reason: str
    is_damaged: bool  # it ended well, but its files do not tell
    o_direct: float


@dataclass
class Folder:
    runs: list = field(default_factory=list)
    failed: list = field(default_factory=list)
    notes: list = field(default_factory=list)


def _complaint(record):
    if not isinstance(record, dict):
        return "is no run"
    for name, kind in _NEEDED.items():
        if not isinstance(record.get(name), kind) or (kind is int and isinstance(record[name], bool)):
            return f"has no {name}, or not of the right kind"
    return ""


def _records(path, notes):
    try:
        text = path.read_bytes().decode("utf-8", errors="replace")
    except OSError as error:
        raise AnalyzeError(f"{path} cannot be read ({error.strerror}): give the folder that bmoe-matrix --out made") from None
    lines = text.split("\n")
    if lines.pop():
        notes.append("matrix.jsonl: the last line was cut off; its run is left out")
    records = {}
    for number, line in enumerate(lines, 1):
        try:
            record = json.loads(line)
        except ValueError:
            record = None
        complaint = _complaint(record)
        if complaint:
            notes.append(f"matrix.jsonl: line {number} {complaint}; it is left out")
        else:
            # A failed run that was repeated stands there twice.
            records.pop(record["run"], None)
            records[record["run"]] = record
    return list(records.values())


def _failed(folder, record):
    o_direct = -1.0
    try:
        o_direct = run_files.number(run_files.load_metrics(folder / record["metrics"]), "o_direct")
    except AnalyzeError:
        pass  # It failed before it could write them.
    reason = str(record.get("error") or f"it ended with status {record['exit_status']}")
    return FailedRun(record, reason, False, o_direct)


def load(path):
    path = Path(path)
    if not path.is_dir():
        raise AnalyzeError(f"there is no folder {path}: give the folder that bmoe-matrix --out made")
    jsonl = path / "matrix.jsonl"
    if not jsonl.exists():
        raise AnalyzeError(f"{path} has no matrix.jsonl: give the folder that bmoe-matrix --out made")
    found = Folder()
    records = _records(jsonl, found.notes)
    if not records:
        raise AnalyzeError(f"{jsonl} has no run: let bmoe-matrix finish at least one")
    for record in records:
        if record["exit_status"] != 0:
            found.failed.append(_failed(path, record))
            continue
        try:
            found.runs.append(Run(record, engine_csv.load(path / record["csv"]), run_files.load_metrics(path / record["metrics"]),
                                  run_files.load_log(path / record["log"])))
        except AnalyzeError as error:
            found.failed.append(FailedRun(record, str(error), True, -1.0))
    return found
