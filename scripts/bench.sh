#!/usr/bin/env bash
# bench.sh MODEL [ARGUMENT...]: builds the benchmarks, runs each micro-benchmark, then bmoe-bench with the arguments on the
# model, or, if MODEL is empty, a few short runs of the demo model. Environment: as for build.sh.
set -euo pipefail
cd "$(dirname "$0")/.."

model=${1:-}
shift $(($# > 0 ? 1 : 0))

scripts/build.sh release bmoe_benchmarks bmoe-bench
shopt -s nullglob
for program in build/release/bin/bench/*; do
    printf 'bench: %s\n' "${program##*/}"
    "$program"
done

defaults=()
if [ -z "$model" ]; then
    model=models/demo-moe.gguf
    defaults=(--cells 'decode-6g-auto,decode-6g-0,resident' --pairs 2 --out build/bench-results.jsonl)
fi
printf 'bench: bmoe-bench on %s\n' "$model"
build/release/bin/bmoe-bench run -m "$model" "${defaults[@]}" "$@"
