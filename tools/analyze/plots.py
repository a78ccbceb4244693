"""The plots. Needs matplotlib; imported only where that is there."""

import statistics
from itertools import accumulate

import matplotlib

matplotlib.use("Agg")

from matplotlib import pyplot  # noqa: E402

from analyze.cells import model_name  # noqa: E402
from analyze.run_files import number  # noqa: E402
from analyze.settling import BLOCK  # noqa: E402

_GOOD, _DOUBTFUL = "tab:blue", "tab:red"
_PASSES = {"forward": "tab:blue", "reversed": "tab:orange"}
_DOTS = 110  # per inch
_GIB = 1 << 30


def _names(cell, verdicts):
    return list(dict.fromkeys(verdict.name for verdict in verdicts if (verdict.model, verdict.cell) == (cell.model, cell.name)))


def _title(cells, text):
    models = list(dict.fromkeys(model_name(cell.model) for cell in cells))
    return f"{text}\n{', '.join(models)}"


def _save(figure, out, name):
    figure.tight_layout()
    figure.savefig(out / name, dpi=_DOTS)
    pyplot.close(figure)


def _rows(cells, verdicts):
    """A figure with a labelled row for each cell, the first on top."""
    figure, axes = pyplot.subplots(figsize=(9, 1.6 + 0.55 * len(cells)))
    labels = ["\n".join([cell.label, *(["[" + ", ".join(names) + "]"] if (names := _names(cell, verdicts)) else [])]) for cell in cells]
    axes.set_yticks(range(len(cells)), labels)
    for label, cell in zip(axes.get_yticklabels(), cells):
        label.set_color(_DOUBTFUL if _names(cell, verdicts) else "black")
    axes.set_ylim(len(cells) - 0.4, -0.6)
    axes.grid(axis="x", alpha=0.3)
    return figure, axes


def throughput(out, cells, verdicts):
    figure, axes = _rows(cells, verdicts)
    for row, cell in enumerate(cells):
        color = _DOUBTFUL if _names(cell, verdicts) else _GOOD
        low, high = cell.speed_intervals[0]
        axes.plot([cell.speed.p5, cell.speed.p95], [row, row], color=color, alpha=0.35, linewidth=1.5)
        axes.plot([low, high], [row, row], color=color, linewidth=6, alpha=0.6, solid_capstyle="butt")
        axes.plot(cell.speed.mean, row, "o", color=color, markeredgecolor="white")
        axes.plot(cell.speed.median, row, "|", color="black", markersize=11)
    axes.set_xlim(left=0)
    axes.set_xlabel("tokens per second (dot: mean, bar: its 95 % interval, tick: median, line: p5 to p95 of tokens)")
    axes.set_title(_title(cells, "Speed of each cell (red: with a verdict)"))
    _save(figure, out, "throughput.png")


def _grid(cells, verdicts):
    """A figure with a small plot for each cell, all of one scale."""
    across = min(3, len(cells))
    down = -(-len(cells) // across)
    figure, grid = pyplot.subplots(down, across, figsize=(4.2 * across, 2.4 * down + 1.1), sharex=True, sharey=True, squeeze=False)
    plots = list(grid.flat)
    for axes, cell in zip(plots, cells):
        names = _names(cell, verdicts)
        axes.set_title(cell.label + (f"\n[{', '.join(names)}]" if names else ""), fontsize=9, color=_DOUBTFUL if names else "black")
        axes.axvspan(0, cell.warm_up[0], color="0.9", zorder=0)
        axes.grid(alpha=0.3)
    for axes in plots[len(cells):]:
        axes.set_visible(False)
    for axes in plots[max(0, len(cells) - across):len(cells)]:
        axes.tick_params(labelbottom=True)
    return figure, plots


def _finish_grid(figure, plots, cells, title, across, up):
    drawn = {}
    for axes in plots:
        for line, label in zip(*axes.get_legend_handles_labels()):
            drawn.setdefault(label, line)
    figure.suptitle(_title(cells, title), fontsize=11)
    figure.supxlabel(f"{across} (grey: discarded)", fontsize=9)
    figure.supylabel(up, fontsize=9)
    if drawn:
        plots[0].legend(drawn.values(), drawn.keys(), fontsize=7, loc="best")


def _running_median(values):
    half = BLOCK // 2
    return [statistics.median(values[max(0, at - half):at + half + 1]) for at in range(len(values))]


def token_times(out, cells, verdicts):
    figure, plots = _grid(cells, verdicts)
    for axes, cell in zip(plots, cells):
        for run in cell.runs:
            times = [1e3 * second for second in run.csv.columns["wall_s"]]
            color = _PASSES.get(run.direction, "tab:green")
            axes.plot(range(1, len(times) + 1), times, ".", markersize=2, color=color, alpha=0.35)
            axes.plot(range(1, len(times) + 1), _running_median(times), color=color, linewidth=1.2,
                      label=f"{run.direction}, median of {BLOCK + 1}")
        axes.set_yscale("log")
    _finish_grid(figure, plots, cells, "Time of each token", "token", "ms per token")
    _save(figure, out, "token-times.png")


def hit_rates(out, cells, verdicts):
    figure, plots = _grid(cells, verdicts)
    for axes, cell in zip(plots, cells):
        for run, rates in zip(cell.runs, cell.rates):
            middles = [BLOCK * (block + 0.5) for block in range(len(rates))]
            axes.plot(middles, [100 * rate for rate in rates], color=_PASSES.get(run.direction, "tab:green"), linewidth=1.5,
                      linestyle=":" if run.direction == "reversed" else "-", label=run.direction)
        if not any(cell.rates):
            axes.text(0.5, 0.5, "no cache", transform=axes.transAxes, ha="center", color="0.4")
        axes.set_ylim(0, 102)
    _finish_grid(figure, plots, cells, f"Hit rate, in blocks of {BLOCK} tokens", "token", "experts found in the cache, %")
    _save(figure, out, "hit-rate.png")


def bound(out, cells, verdicts):
    figure, axes = _rows(cells, verdicts)
    for row, cell in enumerate(cells):
        known = [(run.log.bound, sum(run.csv.columns["wall_s"]) / run.csv.steps) for run in cell.runs if run.log.bound]
        if not known:
            continue
        parts = (("compute bound", "tab:green", -0.22, lambda found, _: found.compute_s), ("I/O bound", "tab:purple", 0.0,
                 lambda found, _: found.io_s), ("reached", "0.35", 0.22, lambda _, reached: reached))
        for label, color, offset, choose in parts:
            values = [value for value in (choose(*entry) for entry in known) if value >= 0]
            if values:
                axes.barh(row + offset, 1e3 * statistics.fmean(values), height=0.2, color=color, label=label)
        percents = [found.reached_percent for found, _ in known if found.reached_percent >= 0]
        if percents:
            axes.annotate(f" {statistics.fmean(percents):.0f} %", (1e3 * statistics.fmean(reached for _, reached in known), row + 0.22),
                          va="center", fontsize=8)
    labelled = dict(zip(*reversed(axes.get_legend_handles_labels())))
    if labelled:
        axes.legend(labelled.values(), labelled.keys(), fontsize=8)
    axes.set_xlim(right=1.08 * axes.get_xlim()[1])
    axes.set_xlabel("ms per token, whole run, mean of the runs (percent: share of the larger bound that was reached)")
    axes.set_title(_title(cells, "What the hardware would allow, and what was reached"))
    _save(figure, out, "bound.png")


def _spread(places, gap):
    """The same places in ascending order, at least `gap` apart."""
    return list(accumulate(places, lambda before, place: max(place, before + gap)))


def memory(out, cells, verdicts):
    points = []
    for cell in cells:
        floors = [floor for floor in (number(run.metrics, "mem_available_floor_bytes") for run in cell.runs) if floor >= 0]
        if floors:
            points.append((cell, min(floors) / _GIB, cell.speed.mean))
    figure, axes = pyplot.subplots(figsize=(9, max(5, 0.32 * len(points) + 2)))
    points.sort(key=lambda point: point[2])
    for cell, floor, speed in points:
        axes.plot(floor, speed, "X" if _names(cell, verdicts) else "o", markersize=8,
                  color=_DOUBTFUL if _names(cell, verdicts) else _GOOD)
    axes.set_ylim(0, 1.15 * max((point[2] for point in points), default=1))
    # Names in a column beside the points, where they cannot cover each other.
    heights = _spread([speed / axes.get_ylim()[1] for _, _, speed in points], 0.9 / max(len(points), 14))
    for (cell, floor, speed), height in zip(points, heights):
        axes.annotate(cell.label, (floor, speed), xytext=(1.02, height), textcoords="axes fraction", fontsize=8, va="center",
                      color=_DOUBTFUL if _names(cell, verdicts) else "black",
                      arrowprops={"arrowstyle": "-", "color": "0.8", "linewidth": 0.7}, annotation_clip=False)
    axes.ticklabel_format(axis="x", useOffset=False)
    axes.grid(alpha=0.3)
    axes.set_xlabel("lowest MemAvailable of the cell's runs, GiB")
    axes.set_ylabel("tokens per second, mean")
    axes.set_title(_title(cells, "Speed against the memory that was left (red cross: with a verdict)"))
    _save(figure, out, "memory-floor.png")


def write(out, cells, verdicts):
    for plot in (throughput, token_times, hit_rates, bound, memory):
        plot(out, cells, verdicts)
