"""The engine's --csv file, as docs/telemetry.md has it."""

import math
from dataclasses import dataclass

from analyze import text_file
from analyze.error import AnalyzeError

_VERSION = "# bmoe_csv v"
_KNOWN_VERSION = "1"
_NEEDED = ("row", "tokens", "wall_s", "stall_s", "expert_compute_s", "hits", "misses", "dropped", "substituted", "mass_forgone", "majflt")


@dataclass(frozen=True)
class EngineCsv:
    preamble: dict  # name: text
    columns: dict  # name: one number for each decode step

    @property
    def steps(self):
        return len(self.columns["wall_s"])


def _row(path, number, names, line):
    values = line.split(",")
    if len(values) != len(names):
        raise AnalyzeError(f"{path}: line {number} has {len(values)} of {len(names)} values, so it was cut off: repeat the run")
    row = dict(zip(names, values))
    for name in names[1:]:
        try:
            row[name] = float(row[name])
        except ValueError:
            row[name] = math.nan
        if not math.isfinite(row[name]):
            raise AnalyzeError(f"{path}: line {number} has no number in column {name}: repeat the run")
    return row


def parse(text, path):
    lines = text.split("\n")
    if not lines[0].startswith(_VERSION):
        raise AnalyzeError(f"{path} does not begin with '{_VERSION}': give a file that bmoe-cli --csv wrote")
    version = lines[0].removeprefix(_VERSION).strip()
    if version != _KNOWN_VERSION:
        raise AnalyzeError(f"{path} is version {version} of the CSV and this program reads version {_KNOWN_VERSION}: "
                           "use the bmoe-analyze that belongs to that bmoe-cli")
    if lines[-1]:
        raise AnalyzeError(f"{path}: line {len(lines)}, the last, was cut off: repeat the run")
    preamble, names, rows = {}, None, []
    for number, line in enumerate(lines[1:-1], 2):
        if names is None and line.startswith("# "):
            name, _, value = line[2:].partition("=")
            preamble[name] = value
        elif names is None:
            names = line.split(",")
            missing = [name for name in _NEEDED if name not in names]
            if missing:
                raise AnalyzeError(f"{path}: line {number} names no column {', '.join(missing)}: "
                                   "give a file that bmoe-cli --csv wrote")
        else:
            rows.append(_row(path, number, names, line))
    if not rows or rows[-1]["row"] != "summary":
        raise AnalyzeError(f"{path} ends without its summary row, so it was cut off: repeat the run")
    steps = [row for row in rows if row["row"] == "token"]
    if not steps:
        raise AnalyzeError(f"{path} has no decode step: repeat the run with more tokens (-n)")
    if len(steps) != rows[-1]["tokens"]:
        raise AnalyzeError(f"{path} has {len(steps)} decode steps and its summary counts {rows[-1]['tokens']:.0f}: repeat the run")
    if any(step["wall_s"] <= 0 for step in steps):
        raise AnalyzeError(f"{path} has a decode step that took no time: repeat the run")
    return EngineCsv(preamble, {name: [step[name] for step in steps] for name in names[1:]})


def load(path):
    return parse(text_file.read(path), text_file.find(path))
