#!/usr/bin/env bash
# Prints bmoe's own C++ files, one a line.
set -euo pipefail
cd "$(dirname "$0")/.."

folders=()
for folder in include src apps tests bench tools examples; do
    [ ! -d "$folder" ] || folders+=("$folder")
done
find "${folders[@]}" -name '*.h' -o -name '*.cpp' | LC_ALL=C sort
