#!/usr/bin/env bash
# Debian packages the tests use as real counterparts: a browser, PostgreSQL, promtool, Alertmanager,
# docker-compose's parser and systemd's own look at units (nothing of either is started); and a C++ compiler, without which the engine runs on its
# torch operations and the native ones go untested; and openssl, by which anybody checks a release.
set -euo pipefail
# Chromium's headless shell costs half of the whole browser; Debian has it, Ubuntu has not. Where the whole one is there already it will do.
missing=() lighter=()
shell=chromium
grep -qx 'ID=debian' /etc/os-release && shell=chromium-headless-shell
if ! command -v chromium-headless-shell >/dev/null; then
    if ! command -v chromium >/dev/null && ! command -v chromium-browser >/dev/null; then missing+=("$shell")
    elif [ "$shell" != chromium ]; then lighter+=("$shell"); fi
fi
ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || missing+=(postgresql)
command -v promtool >/dev/null || missing+=(prometheus)
command -v prometheus-alertmanager >/dev/null || missing+=(prometheus-alertmanager)
command -v systemd-analyze >/dev/null || missing+=(systemd)
command -v docker-compose >/dev/null || missing+=(docker-compose)
command -v g++ >/dev/null || missing+=(g++)
command -v openssl >/dev/null || missing+=(openssl)
[ $((${#missing[@]} + ${#lighter[@]})) = 0 ] && exit 0
run=()
if [ "$(id -u)" != 0 ]; then
    if ! command -v sudo >/dev/null; then
        [ ${#missing[@]} = 0 ] && exit 0
        echo "Please run as root: apt-get install ${missing[*]}" >&2
        exit 1
    fi
    run=(sudo)
fi
# A policy that refuses to start services: the tests start their own servers on free ports.
install() { DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 "${run[@]}" apt-get install -y -qq --no-install-recommends "$@" >/dev/null; }
echo "Installing Debian packages for the tests: ${missing[*]} ${lighter[*]}"
if [ ${#missing[@]} -gt 0 ]; then
    "${run[@]}" apt-get update -qq
    install "${missing[@]}"
fi
if [ ${#lighter[@]} -gt 0 ]; then
    { "${run[@]}" apt-get update -qq && install "${lighter[@]}"; } || echo "${lighter[*]} cannot be had: the whole browser is used"
fi
