"""What else a run leaves: the metrics of bench-run.sh, and bmoe-cli's lines at the end of its log."""

import re
from dataclasses import dataclass

from analyze import text_file
from analyze.error import AnalyzeError

_KNOWN_VERSION = "1"
_BOUND = re.compile(r"^bound: compute (\S+) s/token \(.*\), I/O (\S+) s/token \(.*\), bound by (.+), (\S+)% reached$", re.MULTILINE)
_MASS = re.compile(r"^(?:moe-drop: .* mass lost|moe-substitute: .* mass) (\S+)%$", re.MULTILINE)


@dataclass(frozen=True)
class Bound:
    """Seconds per token; -1 where the run could not tell."""

    compute_s: float
    io_s: float
    by: str
    reached_percent: float

    @property
    def seconds(self):
        return -1 if -1 in (self.compute_s, self.io_s) else max(self.compute_s, self.io_s)


@dataclass(frozen=True)
class Log:
    bound: Bound | None  # nothing was streamed
    mass_percent: float  # of the router weights, dropped or substituted; -1: neither was asked for


def parse_log(text, path):
    try:
        found = _BOUND.search(text)
        bound = found and Bound(float(found[1]), float(found[2]), found[3], float(found[4]))
        masses = [float(mass) for mass in _MASS.findall(text)]
    except ValueError as error:
        raise AnalyzeError(f"{path}: a line at its end has no number where one should be ({error}): repeat the run") from None
    return Log(bound, sum(masses) if masses else -1.0)


def load_log(path):
    return parse_log(text_file.read(path), path)


def parse_metrics(text, path):
    """name: text. Use `number` for the figures."""
    metrics = dict(line.split("=", 1) for line in text.splitlines() if "=" in line)
    version = metrics.get("bench_run")
    if version is None:
        raise AnalyzeError(f"{path} has no line bench_run=: give a file that bench-run.sh wrote")
    if version != _KNOWN_VERSION:
        raise AnalyzeError(f"{path} is version {version} of the metrics and this program reads version {_KNOWN_VERSION}: "
                           "use the bmoe-analyze that belongs to that bench-run.sh")
    return metrics


def load_metrics(path):
    return parse_metrics(text_file.read(path), path)


def number(table, name):
    """-1 where it was not measured."""
    try:
        return float(table.get(name, -1))
    except (TypeError, ValueError):
        return -1.0
