#!/usr/bin/env bash
# bench-tables.sh [--check] [DATA TABLES]: writes the report on each results folder DATA/<name>/ to TABLES/<name>.md; docs/data and
# docs/tables if not given. --check writes nothing, and fails if a report is not what it would write, or has no data.
set -euo pipefail
# Tables must not depend on the machine.
export LC_ALL=C.UTF-8

root=$(cd "$(dirname "$0")/.." && pwd)
check=0
if [ "${1:-}" = --check ]; then
    check=1
    shift
fi
if [ $# -ne 0 ] && [ $# -ne 2 ]; then
    printf 'usage: bench-tables.sh [--check] [DATA TABLES]\n' >&2
    exit 2
fi
data=${1:-$root/docs/data}
tables=${2:-$root/docs/tables}
if [ $# -eq 2 ] && [ ! -d "$data" ]; then
    printf 'bench-tables: there is no folder %s: give the one with the results folders\n' "$data" >&2
    exit 1
fi

bad=0
complain() {
    printf 'bench-tables: %s\n' "$*" >&2
    bad=1
}

shopt -s nullglob
found=0
fresh=$(mktemp)
trap 'rm -f "$fresh"' EXIT
for jsonl in "$data"/*/matrix.jsonl; do
    found=1
    folder=${jsonl%/matrix.jsonl}
    name=${folder##*/}
    if ! "$root/tools/bmoe-analyze" "$folder" >"$fresh"; then
        complain "$folder cannot be analysed"
    elif [ $check -eq 0 ]; then
        mkdir -p "$tables"
        cp "$fresh" "$tables/$name.md"
        chmod 644 "$tables/$name.md"
        printf '%s\n' "$tables/$name.md"
    elif ! cmp -s "$fresh" "$tables/$name.md"; then
        complain "$tables/$name.md is not what the data give: run make tables"
    fi
done
for table in "$tables"/*.md; do
    name=${table##*/}
    if [ ! -f "$data/${name%.md}/matrix.jsonl" ]; then
        complain "$table has no data in $data/${name%.md}: remove it, or bring the data back"
    fi
done
if [ $found -eq 0 ]; then
    printf '%s holds no results folder, so there is nothing to write\n' "$data"
fi
exit $bad
