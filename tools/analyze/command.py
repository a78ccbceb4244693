"""bmoe-analyze as a command."""

import argparse
import os
import sys
from pathlib import Path

from analyze import cells, folder, matplotlib_python, report, verdicts
from analyze.error import AnalyzeError


def _arguments(argv):
    parser = argparse.ArgumentParser(
        prog="bmoe-analyze", description="Tables, verdicts and plots of a results folder of bmoe-matrix. Exit status: 0; 1 after an error, "
        "runs that ended well and cannot be read among them; 2 for a wrong command line; 3 with --strict and a verdict. "
        "See docs/benchmark-analysis.md.")
    parser.add_argument("folder", help="results folder; its files may be compressed (.gz)")
    parser.add_argument("--out", metavar="DIR", help="write report.md, cells.csv, verdicts.csv and plots there, instead of the report to stdout")
    parser.add_argument("--strict", action="store_true", help="exit with 3 if there is a verdict")
    return parser.parse_args(argv)


def _write(out, files, found, judged):
    out = Path(out)
    try:
        out.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            (out / name).write_text(text, encoding="utf-8")
        if not matplotlib_python.is_here():
            print(f"plots are left out, since {sys.executable} has no matplotlib: install python3-matplotlib", file=sys.stderr)
            return
        from analyze import plots
        plots.write(out, found, judged)
    except OSError as error:
        raise AnalyzeError(f"{error.filename or out} cannot be written ({error.strerror}): give another folder") from None


def _run(given):
    results = folder.load(given.folder)
    for note in results.notes:
        print(f"note: {note}", file=sys.stderr)
    damaged = [run for run in results.failed if run.is_damaged]
    for run in damaged:
        print(f"error: {run.reason}", file=sys.stderr)
    if not results.runs:
        raise AnalyzeError(f"{given.folder} has no run to analyse, since all {len(results.failed)} failed: "
                           + "; ".join(f"{run.record['run']}: {run.reason}" for run in results.failed))
    found = cells.group(results.runs)
    judged = verdicts.judge(found, results.failed)
    text = report.markdown(found, results.failed, results.notes, judged)
    if given.out is None:
        sys.stdout.write(text)
    else:
        files = {"report.md": text, "cells.csv": report.cells_csv(found, judged), "verdicts.csv": report.verdicts_csv(judged)}
        _write(given.out, files, found, judged)
        for verdict in judged:
            print(f"verdict: {verdict.name}, {verdict.label}: {verdict.text}")
        print(f"{len(found)} cells, {len(judged)} verdicts, {len(results.failed)} failed runs; see {given.out}/report.md")
    if damaged:
        return 1
    return 3 if given.strict and judged else 0


def main(argv=None):
    argv = sys.argv[1:] if argv is None else argv
    given = _arguments(argv)
    if given.out is not None:
        matplotlib_python.go_on_there(argv)
    try:
        return _run(given)
    except AnalyzeError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
