#!/usr/bin/env bash
# Makes .venv in the checkout and installs Tailwright into it: of each distribution the version that deploy/locks names, in
# a file whose hash stands there, as a built wheel. Nothing of a package index runs while it is installed.
# Usage: deploy/environment.sh run|test
set -euo pipefail
cd "$(dirname "$0")/.."
wanted=${1:-run}
marker=.venv/.$wanted-ready

source deploy/python.sh
case $wanted in
    run) locks=(run) ;;
    test) locks=(run test) ;;
    *) echo "usage: $0 run|test" >&2; exit 2 ;;
esac
if [ ! -x .venv/bin/python ]; then make_environment .venv Tailwright; fi

echo "Installing what tailwright wants to $wanted (the first time takes a few minutes: torch is large)."
install_torch .venv
install_locked .venv "${locks[@]}"
.venv/bin/python -m pip install --disable-pip-version-check -q --no-deps --no-build-isolation --no-index -e .
.venv/bin/python -m pip check -q || fail "The environment is not whole: see above. Delete .venv to begin anew."
touch "$marker"
