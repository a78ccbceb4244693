#!/usr/bin/env bash
# All tests in the release build, then those that need no language model under the sanitizers, and the fuzzers for a moment.
# Environment: as for build.sh.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/setup.sh build test

run() {
    local preset=$1 no_aslr=()
    shift
    scripts/build.sh "$preset" "$@"
    if [ "$preset" != release ] && setarch -R true 2>/dev/null; then
        no_aslr=(setarch -R)
    fi
    printf 'test: %s\n' "$preset"
    "${no_aslr[@]}" ctest --preset "$preset" -j "${JOBS:-$(nproc)}"
}

run release
run asan bmoe_unit_tests
run tsan bmoe_tsan_tests
