"""Which cells a matrix has, and in which order they run."""

import itertools
import re
from dataclasses import dataclass

from matrix.axes import AXES, arguments


@dataclass(frozen=True)
class Cell:
    axes: dict  # every axis
    varied: dict  # those in which it differs from the base

    @property
    def name(self):
        return ",".join(f"{name}={value}" for name, value in self.varied.items()) or "base"


@dataclass(frozen=True)
class Run:
    name: str
    model: str
    cell: Cell
    direction: str  # "forward" or "reversed"
    round: int
    position: int

    def arguments(self, matrix):
        return arguments(self.cell.axes) + ([] if matrix.warm_start else ["--no-warm-start"]) + list(matrix.flags)


def cells(matrix):
    """The base first."""
    base = matrix.base()
    if matrix.mode == "full":
        varied = [dict(zip(matrix.axes, values)) for values in itertools.product(*matrix.axes.values())]
    else:
        varied = [{}] + [{name: value} for name, values in matrix.axes.items() for value in values[1:]]
    made = []
    for settings in varied:
        axes = base | settings
        made.append(Cell(axes, {name: axes[name] for name in AXES if axes[name] != base[name]}))
    return made


def _sequence(matrix):
    """One forward pass: (model, cell)."""
    base, *others = cells(matrix)
    if matrix.interleave and others:
        order = [cell for other in others for cell in (base, other)]
    else:
        order = [base, *others]
    return [(model, cell) for model in matrix.models for cell in order]


def plan(matrix):
    """All runs. A round is the forward pass and, if wanted, the reversed one: what drifts then weighs on both alike."""
    forward = _sequence(matrix)
    passes = [("forward", forward)] + ([("reversed", forward[::-1])] if matrix.reversed else [])
    runs = []
    for number in range(1, matrix.rounds + 1):
        for direction, order in passes:
            for position, (model, cell) in enumerate(order, 1):
                slug = re.sub("[^A-Za-z0-9.]+", "-", cell.name)
                name = f"{len(runs) + 1:04}-{slug}-{direction}-{number}"
                runs.append(Run(name, model, cell, direction, number, position))
    return runs
