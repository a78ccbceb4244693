"""Runs of the same cell taken together, and their figures."""

import statistics
from dataclasses import dataclass
from functools import cached_property

from analyze import settling
from analyze.distribution import Speed, intervals, speed, way
from analyze.run_files import number

LOSSY_AXES = ("drop-cold-experts", "substitute-cold")


def _mean(values):
    return -1.0 if any(value < 0 for value in values) else statistics.fmean(values)


def _figures_of(seconds):
    found = speed(seconds)
    return found.mean, found.median, found.p5, found.p95


def lossy_rates(run):
    """(dropped, substituted, mass), each a share of what was routed while decoding; -1: not measured."""
    columns = run.csv.columns
    dropped, substituted, used = (sum(columns["dropped"]), sum(columns["substituted"]),
                                  sum(columns["hits"]) + sum(columns["misses"]))
    if min(dropped, substituted, used) < 0 or used + dropped == 0:
        return -1.0, -1.0, -1.0
    routed = used + dropped
    return dropped / routed, substituted / routed, -1.0 if run.log.mass_percent < 0 else run.log.mass_percent / 100


@dataclass(frozen=True)
class Cell:
    model: str
    name: str
    label: str  # the name, and the model where there are several
    runs: tuple

    @property
    def axes(self):
        return self.runs[0].record["axes"]

    @cached_property
    def rates(self):
        """Hit rates by blocks of tokens, for each run; empty for one without a cache."""
        return [[] if number(run.csv.preamble, "cache_bytes") <= 0 else
                settling.block_rates(run.csv.columns["hits"], run.csv.columns["misses"]) for run in self.runs]

    @cached_property
    def warm_up(self):
        """(tokens, why): the same for all runs of the cell, so that they are of the same text."""
        return max((settling.warm_up(rates, run.csv.steps) for rates, run in zip(self.rates, self.runs)), key=lambda found: found[0])

    def settled(self, run, name):
        return run.csv.columns[name][min(self.warm_up[0], run.csv.steps - 1):]

    def seconds(self, direction=None):
        return [self.settled(run, "wall_s") for run in self.runs if direction in (None, run.direction)]

    @cached_property
    def speed(self) -> Speed:
        return speed([second for run in self.seconds() for second in run])

    @cached_property
    def speed_intervals(self):
        """(low, high) of mean, median, p5 and p95."""
        return intervals(self.seconds(), f"{self.model} {self.name}", _figures_of)

    def pass_speed(self, direction):
        """(mean, low, high) of the runs of one pass; None if there is none."""
        runs = self.seconds(direction)
        if not runs:
            return None
        seed = f"{self.model} {self.name} {direction}"
        low, high = intervals(runs, seed, lambda seconds: (len(seconds) / sum(seconds),))[0]
        return sum(map(len, runs)) / sum(map(sum, runs)), low, high

    @property
    def resampled(self):
        return way(self.runs)

    @property
    def is_lossy(self):
        """What it computes depends on the state of its cache."""
        asked = any(self.axes.get(axis, "off") != "off" for axis in LOSSY_AXES)
        return asked or any(sum(run.csv.columns[name]) > 0 for run in self.runs for name in ("dropped", "substituted"))

    @property
    def experts_used(self):
        return int(number(self.runs[0].csv.preamble, "n_expert_used"))

    def hit_rate(self):
        hits = [hit for run in self.runs for hit in self.settled(run, "hits")]
        misses = [miss for run in self.runs for miss in self.settled(run, "misses")]
        if min(hits + misses) < 0 or sum(hits + misses) == 0:
            return -1.0
        return sum(hits) / sum(hits + misses)

    def compute(self):
        """Seconds per token of each run: {"expert_compute_s": [[...], ...], "wall_s less stall_s": ...}; what was not measured is not
        there."""
        found = {}
        experts = [self.settled(run, "expert_compute_s") for run in self.runs]
        stalls = [self.settled(run, "stall_s") for run in self.runs]
        if min(map(min, experts)) >= 0:
            found["expert_compute_s"] = experts
        if min(map(min, stalls)) >= 0:
            found["wall_s less stall_s"] = [[wall - stall for wall, stall in zip(self.settled(run, "wall_s"), stalled)]
                                            for run, stalled in zip(self.runs, stalls)]
        return found

    def stall(self):
        return _mean([value for run in self.runs for value in self.settled(run, "stall_s")])

    def mean_lossy_rates(self):
        rates = [lossy_rates(run) for run in self.runs]
        return tuple(_mean(column) for column in zip(*rates))


def major_faults(run):
    """Per decode step; -1: not measured."""
    return _mean(run.csv.columns["majflt"])


def model_name(path):
    return path.replace("\\", "/").rsplit("/", 1)[-1].removesuffix(".gguf")


def group(runs):
    """Cells in the order in which they first ran."""
    by_cell = {}
    for run in runs:
        by_cell.setdefault((run.record["model"], run.record["cell"]), []).append(run)
    several = len({model for model, _ in by_cell}) > 1
    return [Cell(model, name, f"{model_name(model)}: {name}" if several else name, tuple(members))
            for (model, name), members in by_cell.items()]
