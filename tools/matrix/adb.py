"""Runs on a device, over adb. Models, and files that flags name, are paths on the device."""

import shlex
import subprocess
from pathlib import Path, PurePosixPath

from matrix.error import MatrixError
from matrix.process import run_stoppable

ENDINGS = ("csv", "log", "txt", "metrics")


class Adb:
    name = "adb"

    def __init__(self, scripts, cli, serial="", folder="/data/local/tmp/bmoe-bench"):
        self.bench_run = Path(scripts) / "bench-run.sh"
        self.cli = Path(cli)
        self.command = ["adb", *(["-s", serial] if serial else [])]
        self.folder = PurePosixPath(folder)
        if not self.cli.is_file():
            raise MatrixError(f"there is no program {cli}: name bmoe-cli as built for the device with --cli")

    def prepare(self):
        self._shell("mkdir", "-p", self.folder / "runs")
        self._adb("push", self.bench_run, self.folder / "bench-run.sh")
        self._adb("push", self.cli, self.folder / "bmoe-cli")
        self._shell("chmod", "755", self.folder / "bmoe-cli")

    def check_model(self, model):
        # The answer in words: old devices lose the exit status.
        script = f"if [ -r {shlex.quote(model)} ]; then echo yes; else echo no; fi"
        if self._adb("shell", script).strip() != "yes":
            raise MatrixError(f"there is no model {model} on the device, or it may not be read: copy it with adb push")

    def processors(self):
        answer = self._shell("nproc").strip()
        return int(answer) if answer.isdecimal() else 0

    def state(self):
        return self._shell("sh", self.folder / "bench-run.sh", "--state")

    def run(self, model, tokens, arguments, out, on_tick):
        on_device = self.folder / "runs" / Path(out).name
        words = ["sh", self.folder / "bench-run.sh", "-n", tokens, self.folder / "bmoe-cli", model, on_device, *arguments]
        finished = run_stoppable([*self.command, "shell", self._quoted(words)], lambda: self._stop(on_device), on_tick)
        for ending in ENDINGS:
            # A run that failed may lack any of them.
            subprocess.run([*self.command, "pull", f"{on_device}.{ending}", f"{out}.{ending}"], capture_output=True,
                           stdin=subprocess.DEVNULL)
        subprocess.run([*self.command, "shell", "rm -f " + self._quoted(f"{on_device}.{ending}" for ending in ENDINGS)],
                       capture_output=True, stdin=subprocess.DEVNULL)
        return finished

    def _stop(self, on_device):
        # The end of the adb here does not end what runs on the device.
        asked = subprocess.run([*self.command, "shell", f"kill -TERM $(cat {shlex.quote(f'{on_device}.pid')}) && echo sent"],
                               capture_output=True, text=True, stdin=subprocess.DEVNULL)
        return asked.stdout.strip() == "sent"

    def _quoted(self, words):
        return " ".join(shlex.quote(str(word)) for word in words)

    def _shell(self, *words):
        return self._adb("shell", self._quoted(words))

    def _adb(self, *arguments):
        command = [*self.command, *map(str, arguments)]
        try:
            asked = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
        except FileNotFoundError:
            raise MatrixError("there is no adb on PATH: install the platform tools of Android") from None
        if asked.returncode != 0:
            said = (asked.stderr.strip() or asked.stdout.strip()).splitlines()
            raise MatrixError(f"`{' '.join(command)}` failed: {said[-1] if said else f'exit status {asked.returncode}'}")
        return asked.stdout
