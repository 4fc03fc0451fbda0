#!/usr/bin/env bash
# Makes .venv in the checkout and installs Trimtab into it, at the exact versions of constraints.txt.
# Usage: deploy/environment.sh run|test
set -euo pipefail
cd "$(dirname "$0")/.."
wanted=${1:-run}
marker=.venv/.$wanted-ready

find_python() {
    local candidate
    for candidate in ${PYTHON:-} python3.11 python3.12 python3.13 python3; do
        if command -v "$candidate" >/dev/null && "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            command -v "$candidate"
            return
        fi
    done
    echo "Trimtab needs Python 3.11 or newer. On Debian or Ubuntu: apt-get install python3.11 python3.11-venv" >&2
    exit 1
}

as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"; elif command -v sudo >/dev/null; then sudo "$@"; else return 1; fi
}

if [ ! -x .venv/bin/python ]; then
    python=$(find_python)
    if ! "$python" -c 'import ensurepip' 2>/dev/null; then
        package="python$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')-venv"
        echo "Installing the Debian package $package (this Python has no ensurepip)."
        as_root apt-get update -qq && as_root apt-get install -y -qq "$package" >/dev/null ||
            { echo "Could not install it; please run: apt-get install $package" >&2; exit 1; }
    fi
    echo "Making .venv with $("$python" --version)."
    "$python" -m venv .venv
fi

case $wanted in
    run) extras=server,agent,engine,tuner,web ;;
    test) extras=server,agent,engine,tuner,web,dev ;;
    *) echo "usage: $0 run|test" >&2; exit 2 ;;
esac
echo "Installing trimtab[$extras] (the first time takes a few minutes: torch is large)."
.venv/bin/python -m pip install --disable-pip-version-check --progress-bar on -q -c constraints.txt -e ".[$extras]"
touch "$marker"
