#!/usr/bin/env bash
# Runs every benchmark of bench/ in turn; each prints its own table.
set -euo pipefail
cd "$(dirname "$0")/.."
shopt -s nullglob

for name in executor sizes; do
  cmake --build build/release --target "bench_$name" >/dev/null
  echo "== bench/$name.cpp"
  "build/release/bench/bench_$name"
done

for bench in bench/*.py; do
  grep -q __main__ "$bench" || continue  # what the others share
  echo "== $bench"
  .venv/bin/python "$bench"
done
