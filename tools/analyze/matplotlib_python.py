"""A python3 that has matplotlib, which the one first on PATH may lack."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

_DEBIAN_PYTHON = "/usr/bin/python3"
_PROGRAM = Path(__file__).resolve().parents[1] / "bmoe-analyze"


def is_here():
    return importlib.util.find_spec("matplotlib") is not None


def go_on_there(argv):
    """Starts the program again, in the same process, with Debian's Python, if that has matplotlib and this one has not."""
    if is_here() or not os.access(_DEBIAN_PYTHON, os.X_OK):
        return
    if subprocess.run([_DEBIAN_PYTHON, "-c", "import matplotlib"], capture_output=True, check=False).returncode == 0:
        os.execv(_DEBIAN_PYTHON, [_DEBIAN_PYTHON, str(_PROGRAM), *argv])
