"""Which cells not to believe, and why. docs/benchmark-analysis.md says what each verdict means."""

import statistics
from dataclasses import dataclass

from analyze import settling
from analyze.cells import LOSSY_AXES, lossy_rates, major_faults
from analyze.distribution import intervals
from analyze.run_files import number

LEAST_TOKENS = 256
FAULTS_JUMP = 10  # an order of magnitude
FAULTS_FLOOR = 5.0  # per token: fewer cost nothing that could be seen
DIFFERENCE = 0.05  # of a figure: less decides nothing, however sure it is

# What is kept in memory does not depend on these, so cells that differ in them alone should fault alike.
_SAME_MEMORY_AXES = ("io-threads", "threads", "overlap", "n-expert-used", *LOSSY_AXES)


@dataclass(frozen=True)
class Verdict:
    name: str
    model: str
    cell: str
    label: str
    text: str


def _axes_without(cell, left_out):
    return cell.model, tuple(sorted((name, value) for name, value in cell.axes.items() if name not in left_out))


def _groups(cells, left_out):
    groups = {}
    for cell in cells:
        groups.setdefault(_axes_without(cell, left_out), []).append(cell)
    return groups.values()


def _mean_and_interval(cell, quantity, runs):
    low, high = intervals(runs, f"{cell.model} {cell.name} {quantity}", lambda values: (statistics.fmean(values),))[0]
    return statistics.fmean(value for run in runs for value in run), low, high


def compute_rises(cells, failed):
    for group in _groups([cell for cell in cells if not cell.is_lossy], ("n-expert-used",)):
        measured = [(cell, {name: _mean_and_interval(cell, name, runs) for name, runs in cell.compute().items()}) for cell in group]
        for cell, figures in measured:
            rises = []
            for other, others in measured:
                if not 0 < cell.experts_used < other.experts_used:
                    continue
                for name in figures.keys() & others.keys():
                    mean, low, _ = figures[name]
                    before, _, high = others[name]
                    if before > 0 and mean > before * (1 + DIFFERENCE) and low > high:
                        rises.append((mean / before, name, mean, before, other))
            if rises:
                _, name, mean, before, other = max(rises, key=lambda rise: rise[:2])
                yield cell, (f"{name} is {mean * 1e3:.3f} ms per token with {cell.experts_used} experts, and "
                             f"{before * 1e3:.3f} ms with {other.experts_used} ({other.label}); fewer experts cannot take longer")


def majflt_jump(cells, failed):
    for group in _groups(cells, _SAME_MEMORY_AXES):
        measured = [(major_faults(run), cell, run) for cell in group for run in cell.runs]
        measured = [entry for entry in measured if entry[0] >= 0]
        if not measured:
            continue
        fewest, _, calm = min(measured, key=lambda entry: entry[0])
        for cell in group:
            faults, run = max(((faults, run) for faults, owner, run in measured if owner is cell),
                              key=lambda entry: entry[0], default=(-1, None))
            if faults >= FAULTS_FLOOR and faults >= FAULTS_JUMP * fewest:
                yield cell, (f"{faults:.1f} major faults per token in run {run.name}, and {fewest:.1f} in run {calm.name}, "
                             "which keeps as much in memory")


def moved_on_reversal(cells, failed):
    for cell in cells:
        forward, backward = cell.pass_speed("forward"), cell.pass_speed("reversed")
        if cell.is_lossy or forward is None or backward is None:
            continue
        apart = max(forward[1], backward[1]) > min(forward[2], backward[2])
        change = backward[0] / forward[0] - 1
        if apart and max(forward[0], backward[0]) > min(forward[0], backward[0]) * (1 + DIFFERENCE):
            yield cell, (f"{forward[0]:.2f} tok/s ({forward[1]:.2f} - {forward[2]:.2f}) forward and {backward[0]:.2f} tok/s "
                         f"({backward[1]:.2f} - {backward[2]:.2f}) reversed, {100 * change:+.1f} %")


def entered_hot(cells, failed):
    for cell in cells:
        found = []
        for run in cell.runs:
            entry = run.record["entry"]
            temperature = number(entry, "cpu_temp_c")
            limits = entry.get("thresholds")
            limit = number(limits if isinstance(limits, dict) else {}, "cpu_temp_c")
            if entry.get("gave_up"):
                found.append(f"run {run.name} began after {number(entry, 'waited_s'):.0f} s of waiting in vain: "
                             f"{entry.get('reason') or 'no reason given'}")
            elif -1 not in (temperature, limit) and temperature > limit:
                found.append(f"run {run.name} began at {temperature:.1f} °C, over its threshold of {limit:.1f} °C")
        if found:
            yield cell, "; ".join(found)


def no_direct_io(cells, failed):
    for cell in cells:
        names = [run.name for run in cell.runs
                 if "0" in (run.csv.preamble.get("o_direct"), run.metrics.get("o_direct"))]
        if names:
            yield cell, f"o_direct=0 in run {', '.join(names)}: experts came through the page cache"
    for run in failed:
        if run.o_direct == 0:
            yield run, f"o_direct=0 in run {run.record['run']}, which counts as failed: experts came through the page cache"


def short(cells, failed):
    for cell in cells:
        run = min(cell.runs, key=lambda run: run.generated)
        if run.generated < LEAST_TOKENS:
            yield cell, f"{run.generated} tokens in run {run.name}, fewer than {LEAST_TOKENS}"


def unsettled(cells, failed):
    for cell in cells:
        for run, rates in zip(cell.runs, cell.rates):
            found = settling.climb(rates)
            if found and found[2]:
                yield cell, (f"the hit rate still climbed in run {run.name}: {100 * found[0]:.1f} % in the third quarter, "
                             f"{100 * found[1]:.1f} % in the last")
                break


_RULES = {
    "compute-rises": compute_rises,
    "majflt-jump": majflt_jump,
    "moved-on-reversal": moved_on_reversal,
    "entered-hot": entered_hot,
    "no-direct-io": no_direct_io,
    "short": short,
    "unsettled": unsettled,
}
NAMES = tuple(_RULES)


def judge(cells, failed):
    verdicts = []
    for name, rule in _RULES.items():
        for subject, text in rule(cells, failed):
            if hasattr(subject, "label"):
                verdicts.append(Verdict(name, subject.model, subject.name, subject.label, text))
            else:
                record = subject.record
                verdicts.append(Verdict(name, record["model"], record["cell"], record["cell"], text))
    return verdicts


def passes_of_lossy(cells):
    """What stands in place of moved-on-reversal: (label, direction, run, dropped, substituted, mass)."""
    for cell in cells:
        if cell.is_lossy:
            for run in cell.runs:
                yield (cell.label, run, *lossy_rates(run))
