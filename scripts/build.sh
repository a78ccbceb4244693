#!/usr/bin/env bash
# build.sh PRESET [TARGET...]: builds targets (default: all) in build/PRESET, after whatever that needs and lacks: packages,
# llama.cpp, configuring.
#
# Environment: JOBS (compilers at once), BMOE_LLAMA_CPP_DIR (a llama.cpp checkout to use instead of the fetched one),
# CMAKE_ARGS (further arguments for configuring).
set -euo pipefail
cd "$(dirname "$0")/.."

preset=$1
shift
targets=("${@:-all}")
dir=build/$preset
jobs=${JOBS:-$(nproc)}

scripts/setup.sh build
if [ -z "${BMOE_LLAMA_CPP_DIR:-}" ] && ! scripts/fetch-llama-cpp.sh --check >/dev/null 2>&1; then
    scripts/setup.sh fetch
    scripts/fetch-llama-cpp.sh >/dev/null
fi

# ninja configures again by itself when a CMake file it knows has changed; here is what it cannot know.
must_configure() {
    local file
    [ -f "$dir/build.ninja" ] && [ -z "${CMAKE_ARGS:-}" ] || return 0
    if [ -n "${BMOE_LLAMA_CPP_DIR:-}" ]; then
        grep -qxF "BMOE_LLAMA_CPP_DIR:PATH=$BMOE_LLAMA_CPP_DIR" "$dir/CMakeCache.txt" || return 0
    fi
    # A new folder, or a newly installed optional package.
    for file in CMakePresets.json /var/lib/dpkg/status {src,tests}/*/CMakeLists.txt {apps,bench,tests}/CMakeLists.txt; do
        [ "$file" -nt "$dir/build.ninja" ] && return 0
    done
    return 1
}

if must_configure; then
    args=()
    [ -z "${BMOE_LLAMA_CPP_DIR:-}" ] || args+=("-DBMOE_LLAMA_CPP_DIR:PATH=$BMOE_LLAMA_CPP_DIR")
    read -r -a more <<<"${CMAKE_ARGS:-}"
    mkdir -p "$dir"
    printf 'configure: %s\n' "$dir"
    if ! cmake --preset "$preset" "${args[@]}" "${more[@]}" >"$dir/configure.log" 2>&1; then
        rm -f "$dir/build.ninja"
        cat "$dir/configure.log" >&2
        printf 'build: configuring %s failed, see above.\n' "$dir" >&2
        exit 1
    fi
    touch "$dir/build.ninja"
fi

# The sanitizers of gcc 12 and clang 14 do not start under the address space randomisation of some newer kernels, and the
# build runs test programs to list their cases.
no_aslr=()
case $preset in
    asan | tsan) ! setarch -R true 2>/dev/null || no_aslr=(setarch -R) ;;
esac

# On a terminal ninja keeps one status line; elsewhere hundreds of lines would bury what matters.
ninja=()
[ -t 1 ] || ninja+=(--quiet)
# Lint wants all findings, not the first.
[ "$preset" != lint ] || ninja+=(-k 0)
printf 'build: %s in %s, %s at once\n' "${targets[*]}" "$dir" "$jobs"
"${no_aslr[@]}" cmake --build "$dir" -j "$jobs" --target "${targets[@]}" -- "${ninja[@]}"
