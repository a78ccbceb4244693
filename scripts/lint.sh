#!/usr/bin/env bash
# Checks scripts, formatting, warnings (g++) and clang-tidy; runs all of them and then says which failed. Needs llama.cpp's
# headers but does not build it. Environment: as for build.sh.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1

scripts/setup.sh build test lint || exit 1

shopt -s nullglob
shells=(scripts/*.sh tools/*.sh .ci/run)
pythons=(scripts/*.py tools/bmoe-* tools/*.py tools/*/*.py tests/*/*.py)
mapfile -t sources < <(scripts/sources.sh)

check_shells() {
    local file bad=0
    for file in "${shells[@]}"; do
        bash -n "$file" || bad=1
        [ "$(head -n 1 "$file")" != '#!/bin/sh' ] || sh -n "$file" || bad=1
    done
    return $bad
}

check_pythons() {
    [ ${#pythons[@]} -eq 0 ] || PYTHONPYCACHEPREFIX=build/pycache python3 -m py_compile "${pythons[@]}"
}

failed=()
step() {
    local name=$1
    shift
    printf 'lint: %s\n' "$name"
    "$@" || failed+=("$name")
}

step 'bash -n, sh -n' check_shells
step 'py_compile' check_pythons
step 'clang-format (`make format` repairs)' clang-format --dry-run -Werror "${sources[@]}"
step 'g++ warnings' scripts/build.sh lint bmoe_objects
step 'clang-tidy' python3 scripts/tidy.py build/lint "${JOBS:-$(nproc)}" "${sources[@]}"

if [ ${#failed[@]} -gt 0 ]; then
    printf 'lint: FAILED: %s\n' "${failed[@]}" >&2
    exit 1
fi
printf 'lint: all clean (%d C++ files)\n' ${#sources[@]}
