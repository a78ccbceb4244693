"""A process that takes minutes, and how it is stopped."""

import subprocess
import tempfile
from dataclasses import dataclass


@dataclass(frozen=True)
class Finished:
    status: int
    out: str
    err: str
    interrupted: bool = False


def run_stoppable(command, stop, on_tick=lambda: None):
    """Runs `command`. After Ctrl-C calls `stop()`, once a second until it returns true, and waits for the end all the same."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        # A session of its own: Ctrl-C in a terminal reaches us alone.
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=err, start_new_session=True)
        interrupted = is_stopped = False
        while True:
            try:
                if interrupted and not is_stopped:
                    is_stopped = stop()
                status = process.wait(1)
                break
            except subprocess.TimeoutExpired:
                on_tick()
            except KeyboardInterrupt:
                interrupted, is_stopped = True, False
        out.seek(0)
        err.seek(0)
        return Finished(status, out.read().decode(errors="replace"), err.read().decode(errors="replace"), interrupted)
