"""Runs what of a plan is not done yet, one run after the other."""

import re

from matrix.entry import parse_state, wait_for_entry
from matrix.error import MatrixError


def _metrics_status(path):
    """exit_status of a run's metrics; 0 where there are none."""
    try:
        found = re.search(r"^exit_status=(\d+)$", path.read_text(encoding="utf-8", errors="replace"), re.MULTILINE)
    except OSError:
        return 0
    return int(found.group(1)) if found else 0


def _said(finished, kind):
    """What bench-run.sh has to say, of one kind."""
    prefix = f"bench-run: {kind}: "
    return [line.removeprefix(prefix) for line in finished.err.splitlines() if line.startswith(prefix)]


def _judge(finished, out):
    """Exit status and error of a run. The metrics know better than an adb that loses the exit status."""
    status = _metrics_status(out.with_name(out.name + ".metrics")) or finished.status
    if status < 0:
        status = 128 - status
    if status == 0:
        for ending in ("csv", "metrics"):
            if not out.with_name(f"{out.name}.{ending}").exists():
                return 1, f"the run ended well, but its {ending} file did not arrive"
        return 0, ""
    lines = finished.err.strip().splitlines()
    return status, (_said(finished, "error") or lines or [f"the run ended with status {status}"])[-1]


def _record(run, matrix, target, entry, status, error):
    return {
        "run": run.name,
        "cell": run.cell.name,
        "model": run.model,
        "axes": run.cell.axes,
        "varied": run.cell.varied,
        "pass": run.direction,
        "round": run.round,
        "position": run.position,
        "tokens": matrix.tokens,
        "short": matrix.is_short,
        "interleaved": matrix.interleave,
        "flags": list(matrix.flags),
        "memory_limit_mib": matrix.memory_limit_mib or -1,
        "target": target.name,
        "entry": entry,
        "exit_status": status,
        "error": error,
        "csv": f"runs/{run.name}.csv",
        "metrics": f"runs/{run.name}.metrics",
        "log": f"runs/{run.name}.log",
        "text": f"runs/{run.name}.txt",
    }


def _check(matrix, runs, target):
    """Refuses before the first run what would fail, or silently be something else, hours later."""
    for model in dict.fromkeys(run.model for run in runs):
        target.check_model(model)
    processors = target.processors()
    for threads in matrix.axes.get("threads", ()):
        if threads.isdecimal() and 0 < processors < int(threads):
            raise MatrixError(f"axes.threads: {threads} are more than the {processors} processors there, and bmoe-cli would take fewer")


def run_matrix(matrix, runs, target, results, progress):
    """Runs what is not in `results.done`. Returns the failed runs: (name, error). Raises KeyboardInterrupt after recording the run
    that was interrupted."""
    left = [run for run in runs if run.name not in results.done]
    if not left:
        return []
    target.prepare()
    _check(matrix, left, target)
    for name in matrix.entry.unmeasurable(parse_state(target.state())):
        progress.note(f"{name} cannot be measured here; runs begin without regard to it")
    failed = []
    for run in left:
        progress.begin(run.name)
        entry = wait_for_entry(matrix.entry, lambda: parse_state(target.state()), progress.waiting)
        if entry["gave_up"]:
            progress.note(f"{run.name}: after {entry['waited_s']:g} s still {entry['reason']}; it runs all the same, and says so")
        out = results.out(run.name)
        for old in out.parent.glob(f"{run.name}.*"):
            old.unlink()
        finished = target.run(run.model, matrix.tokens, run.arguments(matrix), out, progress.tick)
        status, error = _judge(finished, out)
        results.append(_record(run, matrix, target, entry, status, error))
        for note in _said(finished, "note"):
            progress.note(f"{run.name}: {note}")
        speed = re.search(r"\(([\d.]+ tok/s)\)", finished.out)
        progress.end(f"FAILED: {error}" if status else f"ok, {speed.group(1)}" if speed else "ok")
        if finished.interrupted:
            raise KeyboardInterrupt
        if status:
            failed.append((run.name, error))
    return failed
