#!/usr/bin/env bash
# Makes a virtual environment with the package (editable) and everything its tests need.
# Usage: scripts/setup.sh [DIR]     DIR defaults to .venv; PYTHON chooses the interpreter.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
venv=${1:-.venv}

say() { printf 'setup: %s\n' "$*" >&2; }

python_fits() {
  "$1" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 14))' 2>/dev/null
}

python_makes_venvs() {
  "$1" -c 'import ensurepip, venv' 2>/dev/null
}

find_python() {
  local candidate
  for candidate in ${PYTHON:+"$PYTHON"} python3.11 python3.12 python3.13 python3 python; do
    if python_fits "$candidate" && python_makes_venvs "$candidate"; then
      echo "$candidate"
      return
    fi
  done
  return 1
}

# Prints the major version, or nothing: "openjdk version "17.0.9" …" → 17, "1.8.0_392" → 1.
java_major() {
  local java=${JAVA_HOME:+$JAVA_HOME/bin/}java
  "$java" -version 2>&1 | sed -n 's/.* version "\([0-9]*\).*/\1/p' | head -n 1
}

java_fits() {
  local major
  major=$(java_major || true)
  [[ -n $major && $major -ge 17 ]]
}

can_install() {
  [[ $(id -u) -eq 0 && -r /etc/debian_version ]] && command -v apt-get >/dev/null
}

if [[ -n ${JAVA_HOME:-} ]] && ! java_fits; then
  # Installing would not help: Spark, too, takes the Java that JAVA_HOME names.
  say "JAVA_HOME=$JAVA_HOME is not Java 17 or newer: let it point to one, or unset it"
  exit 1
fi

missing=()
packages=()
if ! find_python >/dev/null; then
  missing+=("Python 3.11, 3.12 or 3.13 with its venv module (found: $( (python3 --version) 2>/dev/null || echo none))")
  packages+=(python3 python3-venv)
fi
if ! java_fits; then
  found=$(java_major || true)
  missing+=("Java 17 or newer (found: ${found:-none})")
  packages+=(openjdk-17-jre-headless)
fi

if [[ ${#missing[@]} -gt 0 ]]; then
  for what in "${missing[@]}"; do say "missing: $what"; done
  if ! can_install; then
    say "install what is missing and run make again; on Debian or Ubuntu:"
    say "    sudo apt-get install ${packages[*]}"
    exit 1
  fi
  say "installing ${packages[*]}"
  apt-get update -qq
  # Never upgrade: exchanging the Java under a running JVM keeps it from starting processes.
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-upgrade --no-install-recommends "${packages[@]}" >&2
  find_python >/dev/null || { say "still no Python ≥ 3.11: this release of Debian has none; set PYTHON"; exit 1; }
  java_fits || { say "still no Java ≥ 17: see what java -version says"; exit 1; }
fi

if [[ ! -x $venv/bin/python ]] || ! python_fits "$venv/bin/python"; then
  python=$(find_python)
  say "creating $venv with $("$python" --version)"
  "$python" -m venv --clear "$venv"
fi
say "installing anabranch and its development tools into $venv"
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
# What the first run would otherwise wait for; a start works without it.
say "compiling kernels and archiving Spark's classes, once"
"$venv/bin/anabranch" prepare >&2 || say "that failed; the first run takes some seconds longer"
