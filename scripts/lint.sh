#!/usr/bin/env bash
# Checks what format.sh would change, then ruff's rules and clang-tidy's. Changes nothing; reports all before it fails.
set -uo pipefail
cd "$(dirname "$0")/.."
failed=0

find include src tests examples \( -name '*.h' -o -name '*.cpp' -o -name '*.c' \) -print0 |
  xargs -0 -r clang-format --dry-run --Werror || failed=1
.venv/bin/ruff format --check . || failed=1
.venv/bin/ruff check . || failed=1

# g++'s precompiled headers mean nothing to clang-tidy: a tree without them, never built, tells it how files are compiled.
cmake --preset release -B build/lint -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON > /dev/null || exit 1
mkdir -p build/lint/passed

# Half a minute a file: one that passed is not looked at again until it, a header or the rules change.
export FIRESTEEL_LINT_KEY
FIRESTEEL_LINT_KEY=$(find .clang-tidy include src -name '*.h' -o -name .clang-tidy | sort | xargs cat | sha256sum)
tidy() {
  local passed
  passed=build/lint/passed/$({ echo "$FIRESTEEL_LINT_KEY"; cat "$1"; } | sha256sum | cut -d' ' -f1)
  [[ -e $passed ]] && return
  clang-tidy-19 --quiet -p build/lint "$1" 2> /dev/null && touch "$passed"
}
export -f tidy
find src -name '*.cpp' -print0 | xargs -0 -r -n 1 -P "$(nproc)" bash -c 'tidy "$1" || exit 1' tidy || failed=1

exit $failed
