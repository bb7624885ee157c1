#!/usr/bin/env bash
# Runs every benchmark of bench/ in turn; each prints its own table.
set -euo pipefail
cd "$(dirname "$0")/.."
shopt -s nullglob

cmake --build build/release --target bench_executor >/dev/null
echo "== bench/executor.cpp"
build/release/bench/bench_executor

for bench in bench/*.py; do
  grep -q __main__ "$bench" || continue  # what the others share
  echo "== $bench"
  .venv/bin/python "$bench"
done
