#!/usr/bin/env python3
"""tidy.py BUILD_DIR JOBS FILE...: runs clang-tidy over the .cpp files among FILE, JOBS at once.

BUILD_DIR holds compile_commands.json and the object files. A file is skipped while its object is older than its last clean
check: the build has then seen no change in it or in a header it includes.
"""

import json
import os
import shlex
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

root = Path(__file__).resolve().parent.parent
header_filter = f"^{root}/(include|src|apps|tests|bench|tools)/"


def object_of(command):
    words = shlex.split(command)
    return words[words.index("-o") + 1]


def is_clean(obj, stamp):
    if not stamp.exists() or not obj.exists():
        return False
    last = stamp.stat().st_mtime
    return last > obj.stat().st_mtime and last > (root / ".clang-tidy").stat().st_mtime


def check(build, source, stamp):
    start = time.time()
    run = subprocess.run(
        ["clang-tidy", "-p", str(build), "--quiet", f"--header-filter={header_filter}", str(source)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if run.returncode == 0:
        stamp.parent.mkdir(parents=True, exist_ok=True)
        stamp.touch()
        os.utime(stamp, (start, start))
        return True
    lines = [line for line in run.stdout.splitlines() if not line.endswith(("warnings generated.", "warning generated."))]
    print("\n".join(lines), file=sys.stderr, flush=True)
    return False


def main():
    build, jobs = Path(sys.argv[1]).resolve(), int(sys.argv[2])
    sources = [(root / name).resolve() for name in sys.argv[3:] if name.endswith(".cpp")]
    database = {Path(entry["file"]): entry["command"] for entry in json.loads((build / "compile_commands.json").read_text())}

    work = []
    for source in sources:
        name = source.relative_to(root)
        if source not in database:
            print(f"tidy: {name} is not part of this build and is not checked")
            continue
        stamp = build / "tidy" / f"{name}.ok"
        if not is_clean(build / object_of(database[source]), stamp):
            work.append((build, source, stamp))

    with ThreadPoolExecutor(jobs) as pool:
        bad = list(pool.map(lambda item: check(*item), work)).count(False)
    print(f"tidy: {len(work)} of {len(sources)} files checked, {bad} with findings")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
