#!/usr/bin/env bash
# Debian packages the tests use as real counterparts: a browser, PostgreSQL, promtool, Alertmanager,
# docker-compose's parser and systemd's own look at units (nothing of either is started); and a C++ compiler, without which the engine runs on its
# torch operations and the native ones go untested; and openssl, by which anybody checks a release.
set -euo pipefail
missing=()
command -v chromium-headless-shell >/dev/null || missing+=(chromium-headless-shell)
ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || missing+=(postgresql)
command -v promtool >/dev/null || missing+=(prometheus)
command -v prometheus-alertmanager >/dev/null || missing+=(prometheus-alertmanager)
command -v systemd-analyze >/dev/null || missing+=(systemd)
command -v docker-compose >/dev/null || missing+=(docker-compose)
command -v g++ >/dev/null || missing+=(g++)
command -v openssl >/dev/null || missing+=(openssl)
[ ${#missing[@]} = 0 ] && exit 0
echo "Installing Debian packages for the tests: ${missing[*]}"
run=()
if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null || { echo "Please run as root: apt-get install ${missing[*]}" >&2; exit 1; }
    run=(sudo)
fi
"${run[@]}" apt-get update -qq
# A policy that refuses to start services: the tests start their own servers on free ports.
DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 "${run[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
