#!/usr/bin/env bash
# Checks what format.sh would change, then ruff's rules and clang-tidy's. Changes nothing; reports all before it fails.
set -uo pipefail
cd "$(dirname "$0")/.."
failed=0

find include src tests examples \( -name '*.h' -o -name '*.cpp' -o -name '*.c' \) -print0 |
  xargs -0 -r clang-format --dry-run --Werror || failed=1
.venv/bin/ruff format --check . || failed=1
.venv/bin/ruff check . || failed=1
find src -name '*.cpp' -print0 | xargs -0 -r -n 1 -P "$(nproc)" clang-tidy --quiet -p build/release || failed=1

exit $failed
