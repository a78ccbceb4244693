#!/usr/bin/env bash
# Builds the benchmarks and runs each; arguments go to every one of them. Environment: as for build.sh.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/build.sh release bmoe_benchmarks
shopt -s nullglob
programs=(build/release/bin/bench/*)
if [ ${#programs[@]} -eq 0 ]; then
    printf 'bench: there is no benchmark in build/release/bin/bench.\n' >&2
    exit 1
fi
for program in "${programs[@]}"; do
    printf 'bench: %s\n' "${program##*/}"
    "$program" "$@"
done
