"""How far the matrix is: a bar on a terminal, lines elsewhere."""

import shutil
import time

_WIDTH = 20


def _duration(seconds):
    minutes, seconds = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"


class Progress:
    def __init__(self, stream, total, done, clock=time.monotonic):
        self.stream = stream
        self.total = total
        self.done = done  # with those of earlier sessions
        self.clock = clock
        self.is_terminal = stream.isatty()
        self.started = clock()
        self.finished = 0  # in this session
        self.current = ""
        self.waiting_for = ""

    def say(self, text):
        self._line(text)

    def note(self, text):
        self._line(f"note: {text}")

    def begin(self, name):
        self.current = name
        self.waiting_for = ""
        self.tick()

    def waiting(self, reason, waited):
        if self.is_terminal:
            self._bar(f"{self.current} waits ({_duration(waited)}): {reason}")
        elif not self.waiting_for:
            self._line(f"[{self.done + 1}/{self.total}] {self.current} waits: {reason}")
        self.waiting_for = reason

    def tick(self):
        if self.is_terminal:
            self._bar(self.current)

    def end(self, outcome):
        self.done += 1
        self.finished += 1
        eta = self.eta()
        self._line(f"[{self.done}/{self.total}] {self.current}: {outcome}" + (f"; ETA {eta}" if eta else ""))

    def eta(self):
        """From the mean of this session's runs; empty where there is nothing to go by, or nothing left."""
        left = self.total - self.done
        if self.finished == 0 or left <= 0:
            return ""
        return _duration((self.clock() - self.started) / self.finished * left)

    def close(self):
        if self.is_terminal:
            self._write("\r\x1b[K")

    def _bar(self, text):
        full = _WIDTH * self.done // max(1, self.total)
        eta = self.eta()
        line = f"[{'#' * full}{'-' * (_WIDTH - full)}] {self.done}/{self.total} " + (f"ETA {eta} " if eta else "") + text
        self._write(f"\r\x1b[K{line[:shutil.get_terminal_size().columns - 1]}")

    def _line(self, text):
        self._write(("\r\x1b[K" if self.is_terminal else "") + text + "\n")

    def _write(self, text):
        try:
            self.stream.write(text)
            self.stream.flush()
        except OSError:
            pass  # nobody reads any more; the runs are in the results all the same
