"""Builds the C++ sources of this folder once per machine and loads them.

Guarantee: a library is what the sources beside this file say, compiled for this processor: its file name carries a
hash of source, compiler, flags and processor. Whatever stands in the way (no compiler, a source that does not compile,
a folder that cannot be written or that others could write to) gives `NativeUnavailable` with the reason and the mend.
Of processes that want the same library one builds and the others wait for it.

The sources are plain C++ with a C interface (pointers and sizes, called through ctypes), so that a build needs seconds
and no torch headers. OpenMP is linked to the runtime that torch has already loaded: two runtimes in one process would
keep two teams of threads on the same cores.
"""

import ctypes
import fcntl
import hashlib
import logging
import os
import shlex
import shutil
import stat
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import torch  # noqa: F401 - loads the OpenMP runtime that the kernels share.

from agents.engine.ops.processor_identity import processor_flags
from agents.host.user_cache import user_cache

HARDENING = (
    "-fstack-protector-strong",
    "-fstack-clash-protection",
    "-U_FORTIFY_SOURCE",
    "-D_FORTIFY_SOURCE=2",
    "-D_GLIBCXX_ASSERTIONS",
    "-Wl,-z,relro,-z,now,-z,noexecstack",
)
"""A kernel that errs ends the process where it can be noticed, and what the loader has bound cannot be written to."""
FLAGS = (
    "-O3",
    "-std=c++17",
    "-fPIC",
    "-shared",
    "-fopenmp",
    "-ffp-contract=fast",
    "-fno-math-errno",
    "-w",
    *HARDENING,
)
CACHE_VARIABLE = "TAILWRIGHT_KERNEL_CACHE"
COMPILER_VARIABLE = "CXX"
MARCH_VARIABLE = "TAILWRIGHT_KERNEL_MARCH"
"""Names the instruction sets to compile for, as the compiler's -march does; unset: all that this processor has."""
MARCHES: dict[str, frozenset[str]] = {
    "x86-64-v2": frozenset(("sse4_2",)),
    "x86-64-v3": frozenset(("avx2", "fma", "f16c")),
    "x86-64-v4": frozenset(("avx2", "fma", "f16c", "avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl")),
}
"""What the kernels may use of the instruction sets that can be named: below the processor's own, to compare them."""
_TIMEOUT_S = 300

SOURCES = Path(__file__).with_name("kernels")
_log = logging.getLogger(__name__)


class NativeUnavailable(Exception):
    """The kernels cannot be had here; the message says why and what would mend it."""


@cache
def load(name: str) -> ctypes.CDLL:
    """The library made of `name`.cpp, built now if it is not yet there. Raises `NativeUnavailable`."""
    source = SOURCES / f"{name}.cpp"
    compiler, flags = _compiler(), (*FLAGS, f"-march={_march()}")
    content = source.read_bytes() + b"".join(path.read_bytes() for path in sorted(source.parent.glob("*.h")))
    key = hashlib.sha256(
        content + "\0".join((_version(compiler), *flags, *sorted(processor_flags()))).encode()
    ).hexdigest()[:20]
    built = _cache_dir() / f"{name}-{key}.so"
    try:
        if not built.exists():
            with _alone(built.with_suffix(".lock")):
                if not built.exists():  # Another process may have built it while this one waited.
                    _build(compiler, flags, source, built)
        return ctypes.CDLL(str(built))
    except OSError as error:
        raise NativeUnavailable(
            f"{built} cannot be built or loaded: {error}; {CACHE_VARIABLE} names another folder for built kernels"
        ) from error


def instruction_sets() -> frozenset[str]:
    """Those that the kernels may use: the processor's, less what `MARCH_VARIABLE` leaves out."""
    march = _march()
    return processor_flags() if march == "native" else processor_flags() & MARCHES[march]


@cache
def sources_digest() -> str:
    """Names the kernels' sources: changes when a kernel might."""
    paths = sorted(path for path in SOURCES.iterdir() if path.suffix in (".cpp", ".h"))
    return hashlib.sha256(b"".join(path.read_bytes() for path in paths)).hexdigest()[:16]


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """One process at a time; the lock ends with the process that holds it, however that ends."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _build(compiler: tuple[str, ...], flags: tuple[str, ...], source: Path, built: Path) -> None:
    with tempfile.TemporaryDirectory(dir=built.parent) as scratch:
        made = Path(scratch) / built.name
        command = [*compiler, *flags, str(source), "-o", str(made), *_openmp(), "-lm"]
        # A warning, so that it is seen where nobody set up logging: the start takes longer than usual.
        _log.warning("building the kernels of %s with %s: some seconds, once per machine", source.name, compiler[0])
        began = time.monotonic()
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
        except subprocess.TimeoutExpired as error:
            raise NativeUnavailable(f"{source.name} did not compile within {_TIMEOUT_S} s") from error
        if done.returncode:
            reason = done.stderr.strip()[:800] or f"it ended with status {done.returncode}"
            raise NativeUnavailable(f"{source.name} does not compile with {' '.join(compiler)}: {reason}")
        made.replace(built)
        _log.info("built %s in %.0f s", built, time.monotonic() - began)


def _compiler() -> tuple[str, ...]:
    """The compiler's command: CXX where it is set, else the first that is installed."""
    if asked := shlex.split(os.environ.get(COMPILER_VARIABLE, "")):
        if found := shutil.which(asked[0]):
            return found, *asked[1:]
        raise NativeUnavailable(f"{COMPILER_VARIABLE} names {asked[0]!r}, which is not installed; unset it or mend it")
    for candidate in ("g++", "c++", "clang++"):
        if found := shutil.which(candidate):
            return (found,)
    raise NativeUnavailable("no C++ compiler; install g++ (Debian: apt-get install g++) for the native kernels")


def _march() -> str:
    march = os.environ.get(MARCH_VARIABLE) or "native"
    if march != "native" and march not in MARCHES:
        raise NativeUnavailable(f"{MARCH_VARIABLE} is {march!r}; it may be native, {', '.join(MARCHES)}")
    return march


def _version(compiler: tuple[str, ...]) -> str:
    try:
        return subprocess.run([*compiler, "--version"], capture_output=True, text=True, check=False, timeout=60).stdout
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NativeUnavailable(f"the compiler {' '.join(compiler)} does not run: {error}") from error


def _openmp() -> list[str]:
    """The OpenMP runtime torch has loaded, as a linker argument; none: the compiler's own."""
    maps = Path("/proc/self/maps")
    if not maps.exists():
        return []
    for line in maps.read_text(encoding="utf-8").splitlines():
        path = line.split()[-1]
        if "libgomp" in Path(path).name and path.startswith("/"):
            return [path, f"-Wl,-rpath,{Path(path).parent}"]
    return []


def _cache_dir() -> Path:
    """TAILWRIGHT_KERNEL_CACHE, or a folder for this user's caches. What lies in it is run: only its owner may write."""
    try:
        folder = user_cache(CACHE_VARIABLE, "kernels")
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        state = folder.stat()
    except (OSError, RuntimeError) as error:
        raise NativeUnavailable(f"no folder for built kernels: {error}; {CACHE_VARIABLE} names another one") from error
    if state.st_uid != os.geteuid() or state.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise NativeUnavailable(
            f"{folder} may be written by others, and what lies there would be run; "
            f"mend it with chown and chmod 700, or name another folder in {CACHE_VARIABLE}"
        )
    return folder
