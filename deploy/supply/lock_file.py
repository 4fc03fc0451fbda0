"""Lock files: requirements with an exact version and the SHA-256 of each file that may be installed for it.

`agent.txt` and `run.txt` are whole; `test.txt`, `gpu.txt` and `parquet.txt` are what these sets add to `run.txt`. Torch
stands apart: `torch-cpu.txt` for builds without CUDA, which PyPI does not carry, or else `torch.txt` for PyPI's build
and `torch-cuda.txt` for what that one wants besides.
"""

from dataclasses import dataclass
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import NormalizedName, canonicalize_name

ROOT = Path(__file__).parents[2]
LOCKS = ROOT / "deploy" / "locks"


class BadLock(ValueError):
    """A line that is no requirement with `==` and at least one SHA-256; the message names file, line and mend."""


@dataclass(frozen=True)
class Pin:
    """One locked distribution: where its marker holds, `version` in a file of one of `hashes` (hexadecimal SHA-256)."""

    requirement: Requirement
    hashes: tuple[str, ...]

    @property
    def name(self) -> NormalizedName:
        return canonicalize_name(self.requirement.name)

    @property
    def version(self) -> str:
        return next(iter(self.requirement.specifier)).version

    def text(self) -> str:
        """The pin as pip reads it."""
        return " \\\n".join([str(self.requirement), *(f"    --hash=sha256:{digest}" for digest in self.hashes)]) + "\n"


def parse(text: str, source: str) -> dict[NormalizedName, Pin]:
    """The pins of a lock file's text by name. `source` is what errors call it. Raises BadLock."""
    pins: dict[NormalizedName, Pin] = {}
    for line in text.replace("\\\n", " ").splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        wanted, *hashes = line.split("--hash=sha256:")
        requirement = Requirement(wanted.strip())
        operators = [specifier.operator for specifier in requirement.specifier]
        if operators != ["=="] or not hashes:
            raise BadLock(f"{source}: {wanted.strip()!r} wants one == and a hash: run `make lock`")
        pin = Pin(requirement, tuple(sorted(digest.strip() for digest in hashes)))
        if pin.name in pins:
            raise BadLock(f"{source}: {pin.name} stands there twice: run `make lock`")
        pins[pin.name] = pin
    return pins


def read(name: str) -> dict[NormalizedName, Pin]:
    """The pins of deploy/locks/`name`.txt by name. Raises BadLock, or FileNotFoundError."""
    file = LOCKS / f"{name}.txt"
    return parse(file.read_text(), file.name)
