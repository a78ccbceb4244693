#!/usr/bin/env bash
# test.sh [release] [asan] [tsan]: all tests in the release build; under the sanitizers those that need no language model, and
# with asan the fuzzers for a moment. Environment: as for build.sh.
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

for preset in "$@"; do
    case $preset in
    release) run release ;;
    asan) run asan bmoe_unit_tests ;;
    tsan) run tsan bmoe_tsan_tests ;;
    *)
        printf 'test: there is no build %s: give release, asan or tsan\n' "$preset" >&2
        exit 2
        ;;
    esac
done
