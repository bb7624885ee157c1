#!/usr/bin/env bash
# Formats C++ with clang-format and Python with ruff, in place.
set -euo pipefail
cd "$(dirname "$0")/.."

find include src tests examples bench \( -name '*.h' -o -name '*.cpp' -o -name '*.c' \) -print0 | xargs -0 -r clang-format -i
.venv/bin/ruff check --quiet --fix-only .
.venv/bin/ruff format --quiet .
