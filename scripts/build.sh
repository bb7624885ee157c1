#!/usr/bin/env bash
# build.sh <preset> [target]: configures where needed, then builds. Safe to interrupt: ninja redoes what was cut short.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/lock.sh

preset=$1
target=${2:-all}

# One job a core, but no more than memory bears: a source over torch's headers takes up to 1.5 GB.
cores=$(nproc)
fits=$(awk '/^MemAvailable/ { print int($2 / 1500000) }' /proc/meminfo)
jobs=$((fits < 1 ? 1 : fits < cores ? fits : cores))

# build.ninja is the last thing a configure run writes.
if [[ ! -f build/$preset/build.ninja || CMakePresets.json -nt build/$preset/build.ninja ]]; then
  cmake --preset "$preset"
fi
cmake --build --preset "$preset" --target "$target" --parallel "${CMAKE_BUILD_PARALLEL_LEVEL:-$jobs}" 9>&-
