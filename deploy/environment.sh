#!/usr/bin/env bash
# Makes .venv in the checkout and installs Tailwright into it, at the exact versions of constraints.txt.
# Usage: deploy/environment.sh run|test
set -euo pipefail
cd "$(dirname "$0")/.."
wanted=${1:-run}
marker=.venv/.$wanted-ready

source deploy/python.sh
if [ ! -x .venv/bin/python ]; then make_environment .venv Tailwright; fi

case $wanted in
    run) extras=server,agent,engine,tuner,web ;;
    test) extras=server,agent,engine,tuner,web,dev ;;
    *) echo "usage: $0 run|test" >&2; exit 2 ;;
esac
echo "Installing tailwright[$extras] (the first time takes a few minutes: torch is large)."
.venv/bin/python -m pip install --disable-pip-version-check --progress-bar on -q -c constraints.txt -e ".[$extras]"
touch "$marker"
