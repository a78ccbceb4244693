#!/usr/bin/env bash
# Installs the Debian packages that are missing for the sets named as arguments:
#
#   build   compile and run bmoe
#   fetch   fetch llama.cpp (scripts/fetch-llama-cpp.sh)
#   test    what the tests need beyond build
#   lint    what `make lint` needs beyond build
#
# With nothing missing it only asks dpkg, and returns at once. Uses sudo where it has to and can.
set -euo pipefail

# <package>, or <package>:<command> where the command on PATH is as good as the package.
build=(make g++:g++ cmake:cmake ninja-build:ninja ccache:ccache git:git pkg-config:pkg-config libcli11-dev
    nlohmann-json3-dev libedit-dev liburing-dev libgtest-dev libbenchmark-dev python3-numpy)
fetch=(git:git npm:npm ca-certificates)
# The asan tests and the fuzzers are built with clang; its sanitizer runtimes are a package of their own. scripts/bench-run.sh is
# run under the shells and commands of small systems.
test=(libfuse3-dev fuse3 clang libclang-rt-dev busybox mksh toybox)
lint=(clang clang-format clang-tidy)

wanted=()
for set in "$@"; do
    case $set in
        build) wanted+=("${build[@]}") ;;
        fetch) wanted+=("${fetch[@]}") ;;
        test) wanted+=("${test[@]}") ;;
        lint) wanted+=("${lint[@]}") ;;
        *)
            printf "setup: unknown set '%s'; the sets are build, fetch, test and lint.\n" "$set" >&2
            exit 2
            ;;
    esac
done

candidates=()
for entry in "${wanted[@]}"; do
    package=${entry%%:*}
    if [ "$entry" = "$package" ] || ! command -v "${entry#*:}" >/dev/null; then
        candidates+=("$package")
    fi
done
[ ${#candidates[@]} -gt 0 ] || exit 0

if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
    printf 'setup: this is not a Debian system, so nothing is installed; make sure that these are there: %s\n' \
        "${candidates[*]}" >&2
    exit 0
fi

# Multi-arch packages print one line per architecture; a package dpkg has never heard of prints none.
installed=$(dpkg-query -W -f '${db:Status-Status} ${Package}\n' "${candidates[@]}" 2>/dev/null |
    sed -n 's/^installed //p') || true
missing=()
for package in "${candidates[@]}"; do
    grep -qxF "$package" <<<"$installed" || missing+=("$package")
done
[ ${#missing[@]} -gt 0 ] || exit 0

by_hand="apt-get update && apt-get install --no-install-recommends ${missing[*]}"
as_root=()
if [ "$(id -u)" -ne 0 ]; then
    if ! command -v sudo >/dev/null; then
        printf 'setup: packages are missing and neither root nor sudo is available. As root, run:\n    %s\n' "$by_hand" >&2
        exit 1
    fi
    as_root=(sudo)
    [ -t 0 ] || as_root=(sudo -n)
fi

apt() {
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq -o Dpkg::Use-Pty=0 "$@" </dev/null >"$log" 2>&1 || {
        cat "$log" >&2
        printf "setup: 'apt-get %s' failed, see above. Once its cause is gone, run this again, or as root:\n    %s\n" \
            "$1" "$by_hand" >&2
        exit 1
    }
}

log=$(mktemp)
trap 'rm -f "$log"' EXIT
printf 'setup: installing %s\n' "${missing[*]}" >&2
apt update
apt install -y --no-install-recommends "${missing[@]}"
