#!/usr/bin/env python3
"""adb for tests: the device is this machine, with a folder of the test in the place of /data/local/tmp.

ADB_ROOT is that folder. ADB_LOSES_STATUS=1: as of old devices, `shell` always ends with 0. Every call is added to ADB_ROOT/calls.
"""

import os
import shutil
import subprocess
import sys

root = os.environ["ADB_ROOT"]
arguments = [argument.replace("/data/local/tmp", root) for argument in sys.argv[1:]]
with open(f"{root}/calls", "a") as file:
    file.write(" ".join(sys.argv[1:]) + "\n")
if arguments[:1] == ["-s"]:
    if arguments[1] != "emulator-1":
        sys.exit(f"error: device '{arguments[1]}' not found")
    arguments = arguments[2:]
what, *rest = arguments
if what == "shell":
    # As on a device the end of the connection does not end the process.
    status = subprocess.run(["sh", "-c", " ".join(rest)], start_new_session=True).returncode
    sys.exit(0 if os.environ.get("ADB_LOSES_STATUS") else status)
elif what in ("push", "pull"):
    source, target = rest
    if not os.path.exists(source):
        sys.exit(f"adb: error: cannot stat '{source}': No such file or directory")
    shutil.copyfile(source, target)
else:
    sys.exit(f"unknown command {what}")
