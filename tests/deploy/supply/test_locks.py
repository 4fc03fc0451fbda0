"""The committed locks hold all that pyproject.toml asks for, at the versions of the constraints."""

import re
import tomllib
from functools import cache
from importlib import metadata

import pytest
from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from deploy.supply import lock, lock_file

LOCKS = sorted(file.stem for file in lock_file.LOCKS.glob("*.txt"))
RUN = ("run", "torch", "torch-cuda")
WHOLE = {
    "agent": ("agent",),
    **{extra: RUN for extra in lock.RUN},
    **{extra: (*RUN, name) for name, extra in lock.ADDED.items()},
}
"""Where each extra's distributions stand."""
MACHINES = ["x86_64", "aarch64"]
PYPROJECT = tomllib.loads((lock_file.ROOT / "pyproject.toml").read_text())


def constraints(file):
    lines = (line.split("#")[0].strip() for line in (lock_file.ROOT / file).read_text().splitlines())
    return {canonicalize_name(wanted.name): wanted for wanted in map(Requirement, filter(None, lines))}


@cache
def pins_of(*names):
    return {name: pin for lock_name in names for name, pin in lock_file.read(lock_name).items()}


def wanted_by(requirement, machine):
    """The requirements of an installed distribution with the extras that `requirement` asks for."""
    held = []
    for extra in ["", *requirement.extras]:
        environment = {**default_environment(), "platform_machine": machine, "extra": extra}
        for line in metadata.requires(requirement.name) or []:
            wanted = Requirement(line)
            if wanted.marker is None or wanted.marker.evaluate(environment):
                held.append(wanted)
    return held


def test_every_lock_is_made_by_make_lock():
    assert sorted(["agent", "run", "torch", "torch-cpu", "torch-cuda", "vllm", *lock.ADDED]) == LOCKS


@pytest.mark.parametrize("name", LOCKS)
def test_versions_are_those_of_the_constraints(name):
    exact = constraints("deploy/vllm_constraints.txt" if name == "vllm" else "constraints.txt")
    differ = [
        str(pin.requirement)
        for pin in lock_file.read(name).values()
        if f"=={pin.version.removesuffix('+cpu')}" != str(exact[pin.name].specifier)
    ]
    assert not differ, "run `make lock`"


@pytest.mark.parametrize("name", LOCKS)
def test_hashes_are_sha256(name):
    assert all(re.fullmatch("[0-9a-f]{64}", digest) for pin in lock_file.read(name).values() for digest in pin.hashes)


def test_each_constraint_is_locked():
    assert constraints("constraints.txt").keys() == pins_of(*(name for name in LOCKS if name != "vllm")).keys()
    assert constraints("deploy/vllm_constraints.txt").keys() == pins_of("vllm").keys()


def test_each_extra_has_a_lock():
    assert WHOLE.keys() == PYPROJECT["project"]["optional-dependencies"].keys()


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("extra", WHOLE)
def test_locks_are_complete(extra, machine):
    """What a locked distribution wants must be locked too, at a version that it takes: pip runs with --no-deps."""
    pins = pins_of(*WHOLE[extra])
    environment = {**default_environment(), "platform_machine": machine}
    project = PYPROJECT["project"]
    open_ends = [
        *map(Requirement, PYPROJECT["build-system"]["requires"]),
        *map(Requirement, project["dependencies"]),
        *map(Requirement, project["optional-dependencies"][extra]),
    ]
    seen = set()
    while open_ends:
        requirement = open_ends.pop()
        if (
            requirement.name == lock.INSTALLER
            or str(requirement) in seen
            or (requirement.marker and not requirement.marker.evaluate({**environment, "extra": ""}))
        ):
            continue
        seen.add(str(requirement))
        pin = pins.get(canonicalize_name(requirement.name))
        assert pin is not None, f"{requirement} is in none of {WHOLE[extra]}: run `make lock`"
        assert requirement.specifier.contains(pin.version, prereleases=True), (
            f"{requirement} is locked as {pin.version}"
        )
        assert pin.requirement.marker is None or pin.requirement.marker.evaluate(environment), pin.requirement
        if is_installed(requirement.name):
            open_ends += wanted_by(requirement, machine)
    assert len(seen) > 3


def is_installed(name):
    try:
        metadata.distribution(name)
    except metadata.PackageNotFoundError:  # CUDA's, and nvidia-ml-py: nothing beyond them is wanted.
        assert lock.is_cuda(canonicalize_name(name)) or name == "nvidia-ml-py", f"{name} is locked, but not installed"
        return False
    return True


def test_this_environment_is_as_locked():
    differ = {
        name: (metadata.version(name), pin.version)
        for name, pin in pins_of("run", "torch", "test").items()
        if metadata.version(name).split("+")[0] != pin.version
    }
    assert not differ, "installed and locked differ: run `make test`"


def test_builds_of_torch_without_cuda_are_of_the_locked_version():
    torch = lock_file.read("torch")["torch"]
    assert lock_file.read("torch-cpu") == {"torch": lock.cpu_build(torch)}
    assert not set(lock.TORCH_CPU_BUILDS.values()) & set(torch.hashes)


def test_a_torch_without_known_cpu_build_is_refused():
    with pytest.raises(lock_file.BadLock, match=r"torch 9\.9\.9\+cpu is known.*TORCH_CPU_BUILDS"):
        lock.cpu_build(lock_file.Pin(Requirement("torch==9.9.9"), ("00",)))


@pytest.mark.parametrize("script", ["environment.sh", "vllm_environment.sh", "python.sh"])
def test_scripts_install_by_hash_or_from_the_checkout(script):
    text = (lock_file.ROOT / "deploy" / script).read_text().replace("\\\n", " ")
    installs = [
        line.strip() for line in text.splitlines() if re.search(r"\bpip (\S+ )*install\b|^\s*pip install", line)
    ]
    assert [
        line
        for line in installs
        if "--require-hashes" not in line and not {"--no-deps", "--no-index"} <= set(line.split())
    ] == []
