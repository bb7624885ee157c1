#!/usr/bin/env bash
# Runs every benchmark of bench/ in turn; each prints its own table.
set -euo pipefail
cd "$(dirname "$0")/.."
shopt -s nullglob

for bench in bench/*.py; do
  [[ $(basename "$bench") == _* ]] && continue
  echo "== $bench"
  .venv/bin/python "$bench"
done
