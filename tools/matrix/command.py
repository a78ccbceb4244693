"""bmoe-matrix as a command."""

import argparse
import hashlib
import os
import signal
import sys
from pathlib import Path

from matrix.adb import Adb
from matrix.error import MatrixError
from matrix.host import Host
from matrix.matrix_file import LEAST_TOKENS, load
from matrix.plan import plan
from matrix.progress import Progress
from matrix.results import Results
from matrix.session import run_matrix

_ROOT = Path(__file__).resolve().parents[2]
_CLI = "build/release/bin/bmoe-cli"


def _arguments(argv):
    parser = argparse.ArgumentParser(
        prog="bmoe-matrix", description="Runs bmoe-cli over a matrix of settings, each run from a measured state of the machine. "
        "The same command again goes on where an interrupted one stopped. See docs/benchmark-method.md.")
    parser.add_argument("matrix", help="matrix file (TOML)")
    parser.add_argument("--out", metavar="DIR", help="results folder")
    parser.add_argument("--cli", metavar="PATH", help=f"bmoe-cli; for --adb as built for the device; default: {_CLI}")
    parser.add_argument("--adb", metavar="SERIAL", nargs="?", const="", help="run on the device over adb; models are paths on it")
    parser.add_argument("--short", action="store_true", help=f"allow fewer than {LEAST_TOKENS} tokens, for a trial")
    parser.add_argument("--dry-run", action="store_true", help="print the plan and run nothing")
    given = parser.parse_args(argv)
    if not given.dry_run and given.out is None:
        parser.error("where should the results go? Name a folder with --out")
    if given.adb is not None and given.cli is None and not given.dry_run:
        parser.error("name bmoe-cli as built for the device with --cli")
    return given


def _print_plan(matrix, runs, out):
    limit = f", memory limit {matrix.memory_limit_mib} MiB" if matrix.memory_limit_mib else ""
    print(f"{len(runs)} runs of {matrix.tokens} tokens{' (a trial: too few to compare)' if matrix.is_short else ''}{limit}", file=out)
    for run in runs:
        print(f"{run.name}  {run.model}  {' '.join(run.arguments(matrix))}", file=out)


def _sha256(path):
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


def _setup(matrix, target):
    """What must be the same for all runs in a folder."""
    return {"matrix": matrix.as_dict(), "target": target.name, "cli_sha256": _sha256(target.cli),
            "bench_run_sha256": _sha256(target.bench_run)}


def _interrupt(signal_number, frame):
    raise KeyboardInterrupt


def _run(given):
    matrix = load(given.matrix, given.short)
    runs = plan(matrix)
    if given.dry_run:
        _print_plan(matrix, runs, sys.stdout)
        return 0
    scripts = _ROOT / "scripts"
    cli = given.cli or _ROOT / _CLI
    if given.adb is None:
        target = Host(scripts, cli, matrix.memory_limit_mib)
    elif matrix.memory_limit_mib:
        raise MatrixError("memory_limit_mib is for runs on this machine: leave it out for --adb")
    else:
        target = Adb(scripts, cli, given.adb)

    results = Results(given.out, _setup(matrix, target), lambda text: print(f"note: {text}", file=sys.stderr))
    done = sum(run.name in results.done for run in runs)
    progress = Progress(sys.stderr, len(runs), done)
    try:
        if done:
            progress.note(f"{done} of {len(runs)} runs are done already")
        failed = run_matrix(matrix, runs, target, results, progress)
    except KeyboardInterrupt:
        progress.note(f"interrupted after {progress.done} of {len(runs)} runs; the same command goes on from there")
        return 130
    finally:
        progress.close()
        results.close()
    if failed:
        progress.say(f"error: {len(failed)} of {len(runs)} runs failed, and the same command repeats them: "
                     + ", ".join(name for name, _ in failed))
        return 1
    progress.say(f"{len(runs)} runs in {given.out}; `tools/bmoe-analyze {given.out}` reads them")
    return 0


def main(argv=None):
    given = _arguments(argv)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    try:
        status = _run(given)
        sys.stdout.flush()
        return status
    except BrokenPipeError:
        # Nobody reads the plan any more. Python would complain once more when it closes stdout.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except MatrixError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
