"""Runs on this machine."""

import os
import signal
import subprocess
from pathlib import Path

from matrix.error import MatrixError
from matrix.process import run_stoppable


class Host:
    name = "host"

    def __init__(self, scripts, cli, memory_limit_mib=0):
        self.bench_run = Path(scripts) / "bench-run.sh"
        self.cli = Path(cli)
        self.prefix = [str(Path(scripts) / "in-cgroup.sh"), str(memory_limit_mib)] if memory_limit_mib else []
        if not (self.cli.is_file() and os.access(self.cli, os.X_OK)):
            raise MatrixError(f"there is no program {cli}: build it with `make build`, or name it with --cli")
        if self.prefix and os.geteuid() != 0:
            raise MatrixError("memory_limit_mib needs root, to make a memory cgroup: run as root, or leave it out")

    def prepare(self):
        pass

    def check_model(self, model):
        if not (os.path.isfile(model) and os.access(model, os.R_OK)):
            raise MatrixError(f"there is no model {model}, or it may not be read")

    def processors(self):
        return os.cpu_count() or 0

    def state(self):
        asked = subprocess.run(["sh", self.bench_run, "--state"], capture_output=True, text=True, stdin=subprocess.DEVNULL)
        if asked.returncode != 0:
            raise MatrixError(f"the state of the machine cannot be read: {asked.stderr.strip()}")
        return asked.stdout

    def run(self, model, tokens, arguments, out, on_tick):
        command = [*self.prefix, "sh", self.bench_run, "-n", str(tokens), self.cli.absolute(), model, out, *arguments]
        return run_stoppable(command, lambda: self._stop(out), on_tick)

    def _stop(self, out):
        try:
            os.kill(int(Path(f"{out}.pid").read_text()), signal.SIGTERM)
        except (OSError, ValueError):
            return False
        return True
