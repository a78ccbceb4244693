#!/usr/bin/env bash
# in-cgroup.sh <MiB> <command>...: runs a command in a new memory cgroup (v1 or v2) of that size. Needs root.
set -euo pipefail

if [ $# -lt 2 ]; then
    printf 'usage: %s <MiB> <command>...\n' "$0" >&2
    exit 2
fi
bytes=$(($1 << 20))
shift
if [ -e /sys/fs/cgroup/memory/memory.limit_in_bytes ]; then
    group=/sys/fs/cgroup/memory/bmoe-$$
    limit=memory.limit_in_bytes
else
    group=/sys/fs/cgroup/bmoe-$$
    limit=memory.max
fi
mkdir "$group"
trap 'rmdir "$group"' EXIT
printf '%s\n' "$bytes" >"$group/$limit"
bash -c 'printf "%s\n" $$ >"$0/cgroup.procs" && exec "$@"' "$group" "$@"
