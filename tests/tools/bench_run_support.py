"""What the tests of bench-run.sh and bmoe-matrix share."""

import os
import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BENCH_RUN = ROOT / "scripts" / "bench-run.sh"
BMOE_MATRIX = ROOT / "tools" / "bmoe-matrix"
DEMO = ROOT / "models" / "demo-moe.gguf"
CLI = Path(os.environ.get("BMOE_CLI") or ROOT / "build" / "release" / "bin" / "bmoe-cli")

# The commands that bench-run.sh may use.
COMMANDS = ("cat", "date", "printf", "readlink", "rm", "sleep")


def shells(scratch):
    """(name, command, PATH) of the shells that are installed: the system's, and those of small systems with their own commands
    and no others."""
    found = [("sh", ["sh"], os.environ["PATH"])]
    for name, shell, box in (("busybox", ["busybox", "sh"], "busybox"), ("mksh and toybox", ["mksh"], "toybox")):
        program, commands = shutil.which(shell[0]), shutil.which(box)
        if program and commands:
            folder = Path(scratch) / box
            folder.mkdir(exist_ok=True)
            for command in COMMANDS:
                if not (folder / command).exists():
                    (folder / command).symlink_to(commands)
            found.append((name, [program, *shell[1:]], str(folder)))
    return found


def fast_sleep(scratch):
    """A PATH on which a second of sleep takes a tenth."""
    folder = Path(scratch) / "fast"
    folder.mkdir(exist_ok=True)
    sleep = folder / "sleep"
    sleep.write_text(f"#!/bin/sh\nexec {shutil.which('sleep')} 0.1\n")
    sleep.chmod(0o755)
    return f"{folder}:{os.environ['PATH']}"


def run(command, **environment):
    return subprocess.run(list(map(str, command)), capture_output=True, text=True, env=os.environ | environment,
                          stdin=subprocess.DEVNULL)


def read_metrics(path):
    return dict(line.split("=", 1) for line in Path(path).read_text().splitlines())
