"""The tables, in Markdown. What was not measured is a dash."""

from analyze.cells import lossy_rates, major_faults
from analyze.run_files import number
from analyze.verdicts import passes_of_lossy

_MIB = 1 << 20


def figure(value, digits=2, scale=1.0, unit=""):
    return "-" if value < 0 else f"{value * scale:.{digits}f}{unit}"


def speed_text(value):
    """Three digits that count, at least."""
    return f"{value:.{0 if value >= 1000 else 1 if value >= 100 else 2 if value >= 1 else 3}f}"


def _interval(value, bounds):
    return f"{speed_text(value)} ({speed_text(bounds[0])} - {speed_text(bounds[1])})"


def _escaped(text):
    return str(text).replace("\\", "\\\\").replace("|", "\\|").replace("\n", " ")


def table(head, rows):
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(map(_escaped, line)) + " |" for line in lines) + "\n"


def _marks(cell, verdicts):
    return ", ".join(dict.fromkeys(verdict.name for verdict in verdicts if (verdict.model, verdict.cell) == (cell.model, cell.name)))


def lossy_text(rates):
    dropped, substituted, mass = rates
    if dropped < 0:
        return "-"
    return f"{100 * dropped:.1f} % dropped, {100 * substituted:.1f} % substituted, router weight {figure(mass, 1, 100, ' %')}"


def throughput(cells, verdicts):
    rows = []
    for cell in cells:
        speed, bounds = cell.speed, cell.speed_intervals
        rows.append((cell.label, len(cell.runs), _interval(speed.mean, bounds[0]), _interval(speed.median, bounds[1]),
                     speed_text(speed.p5), speed_text(speed.p95), speed_text(speed.least), speed_text(speed.most),
                     figure(cell.hit_rate(), 1, 100, " %"), figure(cell.stall(), 2, 1e3), cell.resampled,
                     lossy_text(cell.mean_lossy_rates()) if cell.is_lossy else "", _marks(cell, verdicts)))
    return table(("cell", "runs", "mean tok/s (95 %)", "median tok/s (95 %)", "p5 tok/s", "p95 tok/s", "min tok/s", "max tok/s", "hit rate",
                  "stall, ms/token", "resampled", "lossy", "verdicts"), rows)


def discarded(cells):
    return table(("cell", "tokens generated per run", "tokens discarded", "why"),
                 [(cell.label, ", ".join(map(str, dict.fromkeys(run.generated for run in cell.runs))), *cell.warm_up) for cell in cells])


def pressure(cells):
    rows = []
    for cell in cells:
        for run in cell.runs:
            metrics, entry = run.metrics, run.record["entry"]
            get = lambda name, digits=0, scale=1.0, table=metrics: figure(number(table, name), digits, scale)
            rows.append((
                cell.label, f"{run.direction} {run.record['round']}", get("peak_rss_bytes", 0, 1 / _MIB),
                f"{get('mem_available_start_bytes', 0, 1 / _MIB)} / {get('mem_available_floor_bytes', 0, 1 / _MIB)}",
                f"{get('cpu_temp_start_c', 1)} / {get('cpu_temp_max_c', 1)}", figure(major_faults(run)),
                f"{get('psi_cpu_max', 1)} / {get('psi_memory_max', 1)} / {get('psi_io_max', 1)}",
                f"{get('scaling_max_freq_start_khz', 0, 1e-3)} / {get('scaling_max_freq_min_khz', 0, 1e-3)}",
                f"{get('cpu_temp_c', 1, 1.0, entry)} / {get('mem_available_bytes', 0, 1 / _MIB, entry)} / "
                f"{get('cpu_idle_percent', 0, 1.0, entry)} / {get('scaling_max_freq_khz', 0, 1e-3, entry)}",
                f"{get('waited_s', 0, 1.0, entry)}{', gave up' if entry.get('gave_up') else ''}"))
    return table(("cell", "pass", "peak RSS, MiB", "MemAvailable start / floor, MiB", "CPU start / max, °C", "major faults/token",
                  "PSI cpu / memory / io, %", "max freq start / least, MHz", "at entry: CPU, °C / MemAvailable, MiB / CPU idle, % / max freq, MHz", "waited, s"), rows)


def lossy_passes(cells):
    """Empty if no cell is lossy."""
    rows = [(label, f"{run.direction} {run.record['round']}", speed_text(run.csv.steps / sum(run.csv.columns["wall_s"])),
             *(figure(rate, 1, 100, " %") for rate in rates)) for label, run, *rates in passes_of_lossy(cells)]
    return table(("cell", "pass", "tok/s, whole run", "experts dropped", "experts substituted", "router weight lost"), rows) if rows else ""


def bounds(cells):
    """Empty if nothing was streamed."""
    rows = []
    for cell in cells:
        for run in cell.runs:
            bound = run.log.bound
            if bound:
                rows.append((cell.label, f"{run.direction} {run.record['round']}", figure(bound.compute_s, 1, 1e3),
                             figure(bound.io_s, 1, 1e3), bound.by, figure(bound.reached_percent, 0, 1.0, " %")))
    return table(("cell", "pass", "compute, ms/token", "I/O, ms/token", "bound by", "of the bound reached"), rows) if rows else ""


def failures(failed):
    return table(("run", "cell", "what happened"), [(run.record["run"], run.record["cell"], run.reason) for run in failed])


def verdict_list(verdicts):
    return "".join(f"* **{verdict.name}**, {verdict.label}: {verdict.text}.\n" for verdict in verdicts)
