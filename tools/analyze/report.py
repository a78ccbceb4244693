"""The whole report, and the same figures as CSV."""

import csv
import io

from analyze import tables
from analyze.cells import major_faults, model_name
from analyze.distribution import RUNS_TO_RESAMPLE
from analyze.distribution import BLOCK as RESAMPLED_BLOCK
from analyze.run_files import number

_HOW = (f"Mean: tokens by time; the others are of single tokens. In brackets 95 % intervals by bootstrap, with a fixed seed; resampled are "
        f"runs where a cell has {RUNS_TO_RESAMPLE} or more, otherwise blocks of {RESAMPLED_BLOCK} tokens within each run, which knows nothing "
        "of how runs differ.")


def markdown(cells, failed, notes, verdicts):
    models = ", ".join(dict.fromkeys(model_name(cell.model) for cell in cells))
    parts = [f"Model: {models}.\n", "## Throughput\n", tables.throughput(cells, verdicts), _HOW + "\n",
             "Discarded at the beginning of every run:\n", tables.discarded(cells)]
    lossy = tables.lossy_passes(cells)
    if lossy:
        parts += ["## Lossy cells by pass\n", "What these read and compute depends on what their cache holds, so that they are not judged by "
                  "reversal.\n", lossy]
    parts += ["## Pressure\n", tables.pressure(cells)]
    bounds = tables.bounds(cells)
    if bounds:
        parts += ["## Bound\n", bounds]
    if failed:
        parts += ["## Failed runs\n", "They count nowhere above.\n", tables.failures(failed)]
    parts += ["## Verdicts\n", tables.verdict_list(verdicts) or "None: no cell shows a sign of contamination.\n"]
    if notes:
        parts += ["## Notes\n", "".join(f"* {note}.\n" for note in notes)]
    return "\n".join(parts)


def _csv(head, rows):
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(head)
    writer.writerows([[f"{value:.6g}" if isinstance(value, float) else value for value in row] for row in rows])
    return text.getvalue()


_SPEEDS = ("mean", "median", "p5", "p95")


def cells_csv(cells, verdicts):
    head = ["model", "cell", "runs", "tokens_measured", "discarded", "resampled"]
    for name in _SPEEDS:
        head += [f"tok_per_s_{name}", f"tok_per_s_{name}_low", f"tok_per_s_{name}_high"]
    head += ["tok_per_s_min", "tok_per_s_max", "hit_rate", "stall_s", "dropped_rate", "substituted_rate", "mass_rate", "peak_rss_bytes_max",
             "mem_available_floor_bytes_min", "cpu_temp_max_c", "majflt_per_token_max", "verdicts"]
    rows = []
    for cell in cells:
        speeds = []
        for name, bounds in zip(_SPEEDS, cell.speed_intervals):
            speeds += [getattr(cell.speed, name), *bounds]
        measured = lambda name: [value for value in (number(run.metrics, name) for run in cell.runs) if value >= 0] or [-1]
        rows.append([cell.model, cell.name, len(cell.runs), sum(map(len, cell.seconds())), cell.warm_up[0], cell.resampled, *speeds,
                     cell.speed.least, cell.speed.most, cell.hit_rate(), cell.stall(), *cell.mean_lossy_rates(),
                     int(max(measured("peak_rss_bytes"))), int(min(measured("mem_available_floor_bytes"))),
                     max(measured("cpu_temp_max_c")), max(map(major_faults, cell.runs)),
                     " ".join(dict.fromkeys(verdict.name for verdict in verdicts
                                            if (verdict.model, verdict.cell) == (cell.model, cell.name)))])
    return _csv(head, rows)


def verdicts_csv(verdicts):
    return _csv(("verdict", "model", "cell", "text"), [(verdict.name, verdict.model, verdict.cell, verdict.text) for verdict in verdicts])
