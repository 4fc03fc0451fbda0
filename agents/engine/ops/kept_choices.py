"""Kernels chosen by timing, kept in a file for each processor and setting, so that only a first start measures.

Guarantees: what is read back was found on this processor, with this torch, these kernels, as many threads and the same
instruction sets; a file that says otherwise, or that cannot be read, is told and made anew. Files are replaced whole.
Of processes that want the same choice one measures and the others wait: the lock ends with its holder. No torch here:
`tailwright doctor` reads the files too.
"""

import fcntl
import hashlib
import json
import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from agents.host.user_cache import user_cache

CACHE_VARIABLE = "TAILWRIGHT_KERNEL_TIMINGS"
"""Names another folder for the files."""
_FORMAT = 1

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Choice:
    """kernel: the chosen one's name; least: rows that it computes at least; microseconds: kernel to number of rows to
    what was measured, empty where nothing was."""

    kernel: str
    least: int
    microseconds: dict[str, dict[str, float]]


class KeptChoices:
    """The file of one identity: whatever the choices depend on, by name."""

    def __init__(self, identity: Mapping[str, Any], folder: Path | None = None) -> None:
        self.identity = {"format": _FORMAT, **identity}
        digest = hashlib.sha256(json.dumps(self.identity, sort_keys=True).encode()).hexdigest()[:20]
        self.path = (folder or cache_folder()) / f"{digest}.json"

    def read(self) -> dict[str, Choice]:
        """The choices by layer; none, with a warning, where the file is broken or another's."""
        try:
            return read_file(self.path, self.identity)[1]
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as error:
            _log.warning("the kernel timings in %s are not used and are made anew: %s", self.path, error)
            return {}

    def add(self, layer: str, choice: Choice) -> None:
        """Keep one more choice; call it under `alone`. A folder that cannot be written to is told, and costs the next
        start its measurement."""
        choices = self.read() | {layer: choice}
        body = {"identity": self.identity, "layers": {name: asdict(own) for name, own in choices.items()}}
        scratch = self.path.with_name(f"{self.path.name}.{os.getpid()}")
        try:
            scratch.write_text(json.dumps(body, indent=1) + "\n", encoding="utf-8")
            scratch.replace(self.path)
        except OSError as error:
            _log.warning(
                "kernel timings cannot be kept in %s: %s; name a folder in %s", self.path, error, CACHE_VARIABLE
            )

    @contextmanager
    def alone(self) -> Iterator[None]:
        """One process at a time; without a folder to write to, no protection and no harm."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            lock = self.path.with_suffix(".lock").open("w")
        except OSError:
            yield  # `add` will tell it.
            return
        with lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield


def read_file(path: Path, identity: Mapping[str, Any] | None = None) -> tuple[dict[str, Any], dict[str, Choice]]:
    """Identity and choices of a file. Raises `OSError`, or `ValueError` where it is broken or of another identity."""
    body = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(body, dict) or not isinstance(own := body.get("identity"), dict):
        raise ValueError("it is no file of kernel timings")
    if own.get("format") != _FORMAT or (identity is not None and own != identity):
        raise ValueError("it was made by another version, on another processor or with other settings")
    try:
        return own, {str(name): _choice(entry) for name, entry in body["layers"].items()}
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"an entry is broken: {error!r}") from error


def cache_folder() -> Path:
    """`CACHE_VARIABLE`, or a folder for this user's caches."""
    return user_cache(CACHE_VARIABLE, "kernel-timings")


def _choice(entry: Any) -> Choice:
    microseconds = {
        str(kernel): {str(int(rows)): float(value) for rows, value in own.items()}
        for kernel, own in entry["microseconds"].items()
    }
    if not isinstance(entry["kernel"], str) or entry["least"] < 1:
        raise TypeError(f"kernel {entry['kernel']!r}, least {entry['least']!r}")
    return Choice(entry["kernel"], int(entry["least"]), microseconds)
