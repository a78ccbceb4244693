"""Figures of a distribution, and how sure they are: bootstrap intervals with a fixed seed."""

import math
import random
from dataclasses import dataclass

BLOCK = 16  # tokens next to each other are alike, so they are resampled together
RUNS_TO_RESAMPLE = 3  # of fewer there are too few samples to draw
RESAMPLES = 1000
_COVERAGE = 0.95


def quantile(ordered, share):
    """By nearest rank, as in the engine's own summary."""
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


@dataclass(frozen=True)
class Speed:
    """Tokens per second. `mean` is tokens by time; the others are of single tokens."""

    mean: float
    median: float
    p5: float
    p95: float
    least: float
    most: float


def speed(seconds):
    rates = sorted(1 / second for second in seconds)
    return Speed(len(seconds) / sum(seconds), quantile(rates, 0.5), quantile(rates, 0.05), quantile(rates, 0.95), rates[0], rates[-1])


def _resampled(runs, choose):
    """One sample as large as the runs: whole runs, or blocks of tokens of each."""
    if len(runs) >= RUNS_TO_RESAMPLE:
        return [value for run in choose(runs, k=len(runs)) for value in run]
    sample = []
    for run in runs:
        starts = range(max(1, len(run) - BLOCK + 1))
        for start in choose(starts, k=math.ceil(len(run) / BLOCK)):
            sample += run[start:start + BLOCK]
    return sample


def way(runs):
    return "runs" if len(runs) >= RUNS_TO_RESAMPLE else "blocks"


def intervals(runs, seed, figures):
    """`runs` are lists of a value for each token; `figures` makes of such a list a tuple. A (low, high) for each of the tuple."""
    choose = random.Random(seed).choices
    drawn = [figures(_resampled(runs, choose)) for _ in range(RESAMPLES)]
    tail = (1 - _COVERAGE) / 2
    return [(quantile(ordered, tail), quantile(ordered, 1 - tail)) for ordered in map(sorted, zip(*drawn))]
