#!/usr/bin/env bash
# Checks what format.sh would change, then ruff's rules and clang-tidy's. Changes nothing; reports all before it fails.
set -uo pipefail
cd "$(dirname "$0")/.."
failed=0

find include src tests examples bench \( -name '*.h' -o -name '*.cpp' -o -name '*.c' \) -print0 |
  xargs -0 -r clang-format --dry-run --Werror || failed=1
.venv/bin/ruff format --check . || failed=1
.venv/bin/ruff check . || failed=1

# g++'s precompiled headers mean nothing to clang-tidy: a tree without them, never built, tells it how files are compiled.
cmake --preset release -B build/lint -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON > /dev/null || exit 1
.venv/bin/python scripts/tidy.py || failed=1

exit $failed
