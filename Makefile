# Firesteel's front door. Every target does its own set-up; run any of them on a fresh clone.
SHELL := /bin/bash
.DEFAULT_GOAL := help

# The Python that .venv is made with: 3.11, or 3.12.
PYTHON ?= python3
export PYTHON

.PHONY: help setup build run test test-full test-asan bench wheel docs format lint clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## install what is missing and make .venv
	@scripts/setup.sh

build: setup ## build libfiresteel and the Python module
	@scripts/build.sh release _C

run: build ## take the guided tour
	@.venv/bin/python examples/tour.py

test: setup ## build and run the C++ and the Python tests
	@scripts/build.sh release
	@scripts/test.sh

test-full: setup ## as test, with the long sweeps, a wheel built and tried, and the sanitizers
	@scripts/build.sh release
	@FIRESTEEL_FULL=1 scripts/test.sh

test-asan: setup ## the C++ unit tests under AddressSanitizer and UBSan
	@scripts/build.sh asan
	@ctest --preset asan --parallel "$$(nproc)"

bench: build ## run the benchmarks
	@scripts/bench.sh

wheel: setup ## build a wheel into dist/
	@.venv/bin/python -m pip wheel . --no-deps --no-build-isolation --wheel-dir dist

docs: setup ## build the site into build/docs; build/docs/index.html opens in a browser
	@.venv/bin/python -m sphinx -q -W --keep-going -b html docs build/docs
	@echo "the site is build/docs/index.html"

format: ## format C++ and Python in place
	@scripts/setup.sh lint
	@scripts/format.sh

lint: ## check formatting, ruff and clang-tidy; changes nothing
	@scripts/setup.sh lint
	@scripts/lint.sh

clean: ## remove what was built; .venv stays
	rm -rf build dist python/firesteel/_C.*.so
