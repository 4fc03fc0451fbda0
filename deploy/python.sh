# Sourced by the scripts that make environments: a fitting Python, and the Debian packages that are missing for it.

fail() {
    echo "$1" >&2
    exit 1
}

as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"; elif command -v sudo >/dev/null; then sudo "$@"; else return 1; fi
}

# install_debian PACKAGE WHY
install_debian() {
    echo "Installing the Debian package $1 ($2)."
    as_root apt-get update -qq && as_root apt-get install -y -qq --no-install-recommends "$1" >/dev/null ||
        fail "Could not install it; please run: apt-get install $1"
}

# find_python WHO: where the Python is that WHO can run on; $PYTHON before others.
find_python() {
    local candidate
    for candidate in ${PYTHON:-} python3.11 python3.12 python3.13 python3; do
        if command -v "$candidate" >/dev/null && "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            command -v "$candidate"
            return
        fi
    done
    fail "$1 needs Python 3.11 or newer. On Debian or Ubuntu: apt-get install python3.11 python3.11-venv"
}

# make_environment FOLDER WHO
make_environment() {
    local python
    python=$(find_python "$2")
    if ! "$python" -c 'import ensurepip' 2>/dev/null; then
        install_debian "python$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')-venv" \
            "this Python has no ensurepip"
    fi
    echo "Making $1 with $("$python" --version)."
    "$python" -m venv "$1"
}

# install_locked ENVIRONMENT LOCK...: exactly what deploy/locks/LOCK.txt name, by hash, nothing built.
install_locked() {
    local environment=$1 lock files=()
    shift
    for lock in "$@"; do files+=(-r "deploy/locks/$lock.txt"); done
    "$environment/bin/python" -m pip install --disable-pip-version-check --progress-bar on -q \
        --require-hashes --no-deps --only-binary :all: "${files[@]}"
}

# install_torch ENVIRONMENT: torch as deploy/locks have it. Where pip knows of a build without CUDA (a folder of wheels or an
# index in its configuration), that one; else PyPI's, and CUDA's libraries, which that one wants. A torch of the locked
# version which is there already stays, whatever its hash.
install_torch() {
    local environment=$1 locked told
    locked=$(sed -n 's/^torch==\([0-9.]*\).*/\1/p' deploy/locks/torch.txt)
    if "$environment/bin/python" - "$locked" 2>/dev/null <<'PYTHON'
import sys
from importlib.metadata import version

sys.exit(version("torch").split("+")[0] != sys.argv[1])
PYTHON
    then return; fi
    if told=$(install_locked "$environment" torch-cpu 2>&1); then return; fi
    if [[ $told != *"No matching distribution found"* ]]; then fail "$told"; fi
    echo "No build of torch $locked without CUDA among pip's sources: installing PyPI's, with CUDA's libraries (several GB)."
    install_locked "$environment" torch torch-cuda
}
