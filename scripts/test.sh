#!/usr/bin/env bash
# Runs the C++ tests, then the Python tests; fails if any of them failed. All that is needed must be built.
set -uo pipefail
cd "$(dirname "$0")/.."
failed=()

ctest --preset release --parallel "$(nproc)" || failed+=("C++")
.venv/bin/python -m pytest tests/python || failed+=("Python")

if [[ ${FIRESTEEL_FULL:-} == 1 ]]; then
  make --no-print-directory test-asan || failed+=("sanitizers")
fi

if [[ ${#failed[@]} -gt 0 ]]; then
  echo "failed: ${failed[*]}"
  exit 1
fi
