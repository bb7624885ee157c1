#!/usr/bin/env bash
# Installs what is missing: system packages (Debian and its kin), .venv, the pinned Python packages.
# Says nothing and takes no time where all is there. `setup.sh lint` wants the formatters and linters too.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/lock.sh

PYTHON=${PYTHON:-python3}
VENV=.venv
missing=()

say() { echo "==> $*"; }
stop() {
  echo "firesteel: $1" >&2
  shift
  [[ $# -eq 0 ]] || printf '  %s\n' "$@" >&2
  exit 1
}

[[ $(uname -sm) == "Linux x86_64" ]] || stop "this is $(uname -sm); Firesteel supports Linux on x86-64."

# need <Debian package> <check that holds where it is installed>
need() { local package=$1; shift; "$@" > /dev/null 2>&1 || missing+=("$package"); }
header() { printf '#if !__has_include(<%s>)\n#error\n#endif\n' "$1" | g++ -E -x c++ - -o /dev/null; }

find_missing() {
  missing=()
  need g++ command -v g++
  need cmake command -v cmake
  need ninja-build command -v ninja
  need ccache command -v ccache
  need libboost-graph-dev header boost/graph/boykov_kolmogorov_max_flow.hpp
  need libgtest-dev header gtest/gtest.h
  need llvm-19-dev test -f /usr/lib/llvm-19/include/llvm/Config/llvm-config.h
  need libzstd-dev header zstd.h
  need libisl-dev header isl/ctx.h
  if ! command -v "$PYTHON" > /dev/null; then
    [[ $PYTHON == python3 ]] || stop "PYTHON=$PYTHON is no command here."
    missing+=(python3 python3-venv python3-dev)
  else
    need "$(debian_python)-venv" "$PYTHON" -c "import venv, ensurepip"
    need "$(debian_python)-dev" "$PYTHON" -c \
      "import os, sysconfig as s; assert os.path.exists(os.path.join(s.get_path('include'), 'Python.h'))"
  fi
  if [[ ${1:-} == lint ]]; then
    need clang-format command -v clang-format
    need clang-tidy-19 command -v clang-tidy-19
  fi
}

# Debian's name for the packages of this Python: python3 for its own, python3.12 for another one's.
debian_python() { [[ ${PYTHON##*/} == python3.* ]] && echo "${PYTHON##*/}" || echo python3; }

install_system_packages() {
  find_missing "$@"
  [[ ${#missing[@]} -gt 0 ]] || return 0
  if ! command -v apt-get > /dev/null; then
    stop "these are missing, and there is no apt-get to install them with:" \
      "${missing[*]}   (Debian's names)" "Install them and run this again."
  fi
  local sudo=()
  if [[ $EUID -ne 0 ]]; then
    command -v sudo > /dev/null || stop "packages are missing; as root, run:" "apt-get install ${missing[*]}"
    sudo=(sudo)
  fi
  say "installing ${missing[*]}"
  "${sudo[@]}" apt-get update -qq || true  # an old list may still do
  "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}"
  find_missing "$@"
  [[ ${#missing[@]} -eq 0 ]] || stop "still missing after the installation: ${missing[*]}"
}

check_python() {
  local version
  version=$("$PYTHON" -c 'import platform, sys; print(platform.python_implementation(), "%d.%d" % sys.version_info[:2])') ||
    stop "$PYTHON is there, but does not run."
  case $version in
    "CPython 3.11" | "CPython 3.12") ;;
    *) stop "$PYTHON is $version; Firesteel supports CPython 3.11 and 3.12." \
         "Name another one, for example: make ${MAKECMDGOALS:-run} PYTHON=python3.11" ;;
  esac
}

# .venv is ready when its stamp matches. The stamp is written last; a marker left behind by an interrupted installation
# means that half a package may lie there, so .venv is made anew.
make_venv() {
  local stamp=$VENV/.firesteel-ready marker=$VENV/.firesteel-installing key
  key=$( { cat requirements/*.txt; "$PYTHON" -c 'import sys; print(sys.version_info[:2])'; pwd; } | sha256sum | cut -d' ' -f1)
  [[ -f $stamp && $(< "$stamp") == "$key" ]] && return
  if [[ -e $marker ]] || ! same_python || ! "$VENV/bin/python" -m pip --version > /dev/null 2>&1; then
    say "making $VENV with $("$PYTHON" --version)"
    "$PYTHON" -m venv --clear "$VENV"
  fi
  rm -f "$stamp"
  touch "$marker"
  say "installing the Python packages of requirements/"
  "$VENV/bin/python" -m pip install -q --disable-pip-version-check -r requirements/dev.txt
  # The checkout itself is importable; nothing is copied.
  echo "$PWD/python" > "$("$VENV/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/firesteel_checkout.pth"
  rm "$marker"
  echo "$key" > "$stamp.new"
  mv "$stamp.new" "$stamp"
}

same_python() {
  local ask='import sys; print(sys.version_info[:2])'
  [[ -x $VENV/bin/python && $("$VENV/bin/python" -c "$ask" 2> /dev/null) == "$("$PYTHON" -c "$ask")" ]]
}

command -v "$PYTHON" > /dev/null && check_python  # before anything is installed for it
install_system_packages "$@"
check_python
make_venv
