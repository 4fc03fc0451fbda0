"""Writes deploy/locks/*.txt anew from pyproject.toml, constraints.txt and deploy/vllm_constraints.txt: `make lock`.

uv resolves for Linux on any processor and lists the hashes of all files of each release, as the package index gives
them; nothing is downloaded but metadata. Versions do not move by this: they stand in the constraints.
"""

import subprocess
import sys
import tomllib
from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory

from packaging.requirements import Requirement
from packaging.utils import NormalizedName, canonicalize_name

from deploy.supply.lock_file import LOCKS, ROOT, BadLock, Pin, parse

TORCH = canonicalize_name("torch")
RUN = ("server", "agent", "engine", "tuner", "web")
ADDED = {"test": "dev", "gpu": "gpu", "parquet": "parquet"}
"""Lock files that hold what one more extra adds to RUN's."""

ENVIRONMENT = 'python_full_version < "3.15" and sys_platform == "linux"'
"""As [tool.uv] in pyproject.toml has it: what the locks are made for."""

TORCH_CPU_BUILDS = {
    "torch-2.13.0+cpu-cp311-cp311-manylinux_2_28_x86_64.whl": (
        "6746dbcbeb526eb61330b76b41ff1b4eb848951103a892eeb080dfa2b264667b"
    ),
}
"""Builds of torch without CUDA, which PyPI does not carry, by SHA-256: their hashes were taken from the files."""

INSTALLER = "pip"
"""pip-audit asks for it: every environment has one from Python itself, and it is not to replace itself as it runs."""

HEADER = "# Written by `make lock` for pip install --require-hashes --no-deps -r deploy/locks/{name}.txt\n"


def main() -> int:
    build = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]["requires"]
    run = resolve(RUN, build)
    cuda = {name: pin for name, pin in run.items() if is_cuda(name)}
    write("agent", resolve(("agent",), build).values())
    write("run", (pin for name, pin in run.items() if name != TORCH and name not in cuda))
    write("torch", [run[TORCH]])
    write("torch-cpu", [cpu_build(run[TORCH])])
    write("torch-cuda", cuda.values())
    for name, extra in ADDED.items():
        write(name, (pin for key, pin in resolve((*RUN, extra), build).items() if key not in run))
    write("vllm", compile_pins(["deploy/vllm_constraints.txt", "--no-deps"], []).values())
    return 0


def resolve(extras: Iterable[str], build: list[str]) -> dict[NormalizedName, Pin]:
    """What Tailwright with `extras` wants, and what building it wants (`build`, requirements), all of it."""
    chosen = [argument for extra in extras for argument in ("--extra", extra)]
    return compile_pins(["pyproject.toml", *chosen, "--constraint", "constraints.txt"], build)


def compile_pins(arguments: list[str], more: list[str]) -> dict[NormalizedName, Pin]:
    """uv's answer to `uv pip compile` with `arguments` and the requirements `more`. Raises CalledProcessError."""
    with TemporaryDirectory() as scratch:
        sources = Path(scratch) / "more.in"
        sources.write_text("".join(f"{line}\n" for line in more))
        fixed = [
            "--universal",
            "--python-version",
            "3.11",
            "--generate-hashes",
            "--no-annotate",
            "--no-header",
            "--quiet",
        ]
        command = ["uv", "pip", "compile", *arguments, str(sources), *fixed, "--system-certs"]
        done = subprocess.run([sys.executable, "-m", *command], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)
    pins = parse(done.stdout, "uv's answer")
    for pin in pins.values():
        if str(pin.requirement.marker) == ENVIRONMENT:
            pin.requirement.marker = None  # It holds wherever the lock does.
    return {name: pin for name, pin in pins.items() if name != INSTALLER}


def cpu_build(torch: Pin) -> Pin:
    """The pin of the builds without CUDA of `torch`'s version. Raises BadLock where none is known."""
    version = f"{torch.version}+cpu"
    known = [digest for file, digest in TORCH_CPU_BUILDS.items() if file.startswith(f"torch-{version}-")]
    if not known:
        raise BadLock(f"no build torch {version} is known: `pip hash` of its file belongs into TORCH_CPU_BUILDS")
    return Pin(Requirement(f"torch=={version}"), tuple(sorted(known)))


def is_cuda(name: str) -> bool:
    """Whether this distribution is there for CUDA alone, as PyPI's torch wants it."""
    return name == "triton" or (name.startswith(("cuda-", "nvidia-")) and name != "nvidia-ml-py")


def write(name: str, pins: Iterable[Pin]) -> None:
    """Write deploy/locks/`name`.txt."""
    ordered = sorted(pins, key=lambda pin: pin.name)
    (LOCKS / f"{name}.txt").write_text(HEADER.format(name=name) + "".join(pin.text() for pin in ordered))
    print(f"deploy/locks/{name}.txt: {len(ordered)} distributions, {sum(len(pin.hashes) for pin in ordered)} hashes")


if __name__ == "__main__":
    sys.exit(main())
