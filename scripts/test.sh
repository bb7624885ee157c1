#!/usr/bin/env bash
# Runs the C++ tests, then the Python tests; fails if any of them failed. All that is needed must be built.
set -uo pipefail
cd "$(dirname "$0")/.."
failed=()

# As many processes as cores, each a share of the tests: one process a test, as ctest has it, would load torch each time.
cpp_tests() {
  local shard shards pids=() status=0
  shards=$(nproc)
  for ((shard = 0; shard < shards; ++shard)); do
    GTEST_TOTAL_SHARDS=$shards GTEST_SHARD_INDEX=$shard build/release/tests/cpp/firesteel_tests --gtest_brief=1 &
    pids+=($!)
  done
  trap 'kill "${pids[@]}" 2> /dev/null; exit 130' INT TERM  # a job of a script does not hear of Ctrl-C by itself
  for pid in "${pids[@]}"; do wait "$pid" || status=1; done
  trap - INT TERM
  return $status
}

cpp_tests || failed+=("C++")
# A process a core, but no more than memory bears: one over the largest operators takes up to 4 GB.
fits=$(awk '/^MemAvailable/ { print int($2 / 4000000) }' /proc/meminfo)
cores=$(nproc)
processes=$((fits < 1 ? 1 : fits < cores ? fits : cores))
# One run a folder: each has helpers of its own beside its tests.
for folder in tests/python tests/models tests/random tests/cpython; do
  .venv/bin/python -m pytest "$folder" -n "$processes" --dist worksteal || failed+=("$folder")
done

if [[ ${FIRESTEEL_FULL:-} == 1 ]]; then
  make --no-print-directory test-asan || failed+=("sanitizers")
fi

if [[ ${#failed[@]} -gt 0 ]]; then
  echo "failed: ${failed[*]}"
  exit 1
fi
