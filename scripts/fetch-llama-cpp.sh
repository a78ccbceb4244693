#!/usr/bin/env bash
# Fetches the llama.cpp revision that bmoe is built against, into a folder outside the source tree, and prints that folder.
#
#   fetch-llama-cpp.sh           fetch unless it is there
#   fetch-llama-cpp.sh --check   never fetch; fail, with the reason, if it is not there
#
# The folder is ${BMOE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/bmoe}/llama.cpp-<commit>. The source comes as the git bundle
# inside an npm package, so that the package's hash pins it and any npm registry mirror serves it.
set -euo pipefail

package=node-llama-cpp@3.21.1
# dist.integrity of the package, as `npm view node-llama-cpp@3.21.1 dist.integrity` prints it.
integrity=sha512-E3N0Ev2Va0wzydvXYFwM9Hvyo07PoWjt8T/9GMc43Cvt8YkV/NU/tYUgEMC1grTPv2o9PRjQi0G3Wb5P/awiMg==
bundle=package/llama/gitRelease.bundle
commit=80fb11ac73e66d89eae2c6a91d8a77428fa733ed

fail() {
    printf 'fetch-llama-cpp: %s\n' "$1" >&2
    printf 'fetch-llama-cpp: to build with a llama.cpp checkout of your own, set BMOE_LLAMA_CPP_DIR=<folder> for make or pass -DBMOE_LLAMA_CPP_DIR=<folder> to cmake.\n' >&2
    exit 1
}

cache_root() {
    if [ -n "${BMOE_CACHE:-}" ]; then
        printf '%s' "$BMOE_CACHE"
    elif [ -n "${XDG_CACHE_HOME:-}" ]; then
        printf '%s/bmoe' "$XDG_CACHE_HOME"
    elif [ -n "${HOME:-}" ]; then
        printf '%s/.cache/bmoe' "$HOME"
    else
        fail "no folder to keep llama.cpp in: BMOE_CACHE, XDG_CACHE_HOME and HOME are all unset; set BMOE_CACHE."
    fi
}

head_of() {
    # The folder may belong to another user, which git refuses without safe.directory.
    git -c safe.directory='*' --git-dir="$1/.git" rev-parse --verify --quiet 'HEAD^{commit}' 2>/dev/null || true
}

verify() {
    local dir=$1 head
    head=$(head_of "$dir")
    if [ "$head" != "$commit" ] || [ ! -f "$dir/CMakeLists.txt" ]; then
        fail "$dir is not llama.cpp at $commit (HEAD is ${head:-unreadable}); remove or rename that folder and run $0 again."
    fi
}

root=$(cache_root)
case $root in
    /*) ;;
    *) root=$PWD/$root ;;
esac
dir=$root/llama.cpp-${commit:0:8}

command -v git >/dev/null || fail "git is not on PATH; install it (apt-get install git)."

if [ -e "$dir" ]; then
    verify "$dir"
    printf '%s\n' "$dir"
    exit 0
fi

case ${1:-} in
    '') ;;
    --check) fail "llama.cpp is not at $dir; run 'make' with a target such as 'make build', or scripts/fetch-llama-cpp.sh." ;;
    *) fail "unknown argument '$1'; the only one is --check." ;;
esac

command -v npm >/dev/null ||
    fail "cannot fetch $package: npm is not on PATH; install it (scripts/setup.sh fetch, or apt-get install npm)."
mkdir -p "$root" || fail "cannot create $root; set BMOE_CACHE to a folder that can be written."
tmp=$(mktemp -d "$root/.fetch-XXXXXX") || fail "cannot write to $root; set BMOE_CACHE to a folder that can be written."
trap 'rm -rf "$tmp"' EXIT

printf 'fetch-llama-cpp: fetching llama.cpp %s (npm package %s, 35 MB) to %s\n' "${commit:0:8}" "$package" "$dir" >&2
# The package is data here: none of its scripts or dependencies are wanted. Short retries, so that being offline shows soon.
(cd "$tmp" && npm pack "$package" --loglevel=error --ignore-scripts --fetch-retries=2 --fetch-retry-mintimeout=1000 \
    --fetch-retry-maxtimeout=5000 >npm.out 2>npm.err </dev/null) || {
    grep -v -e 'A complete log of this run' -e '^npm [a-zA-Z!]*  *at ' "$tmp/npm.err" | head -8 | sed 's/^/    /' >&2
    fail "'npm pack $package' from $(npm config get registry 2>/dev/null || echo 'the npm registry') failed, see above; check the network and npm's registry and proxy settings, then run $0 again."
}
tarball=$(find "$tmp" -maxdepth 1 -name '*.tgz')
[ -f "$tarball" ] || fail "'npm pack $package' left no .tgz file in $tmp; run it by hand to see why."

want=$(printf '%s' "${integrity#sha512-}" | base64 -d | od -An -v -tx1 | tr -d ' \n')
have=$(sha512sum "$tarball")
have=${have%% *}
[ "$have" = "$want" ] ||
    fail "the npm package $package has SHA-512 $have, expected $want: the download is damaged or the registry serves another file; run 'npm cache clean --force' and $0 again, or check npm's registry setting."

tar -xzf "$tarball" -C "$tmp" "$bundle" || fail "cannot unpack $bundle from $package; is the disk of $tmp full?"
git clone --quiet --no-checkout "$tmp/$bundle" "$tmp/tree" 2>"$tmp/git.err" &&
    git -C "$tmp/tree" checkout --quiet --detach "$commit" 2>>"$tmp/git.err" || {
    sed 's/^/    /' "$tmp/git.err" >&2
    fail "cannot check out $commit from the git bundle in $package, see above; is the disk of $tmp full?"
}
git -C "$tmp/tree" remote remove origin
verify "$tmp/tree"

# Another run may have put it there meanwhile; then that one counts.
mv -T "$tmp/tree" "$dir" 2>/dev/null || verify "$dir"
printf '%s\n' "$dir"
