"""Builds the C++ sources of this folder once per machine and loads them.

Guarantee: a library is what the sources beside this file say, compiled for this processor: its file name carries a
hash of source, compiler and flags. A machine without a compiler, or a source that does not compile, gives `NativeUnavailable`
with the reason; nobody waits for a build twice, and two processes may build at once.

The sources are plain C++ with a C interface (pointers and sizes, called through ctypes), so that a build needs seconds
and no torch headers. OpenMP is linked to the runtime that torch has already loaded: two runtimes in one process would
keep two teams of threads on the same cores.
"""

import ctypes
import hashlib
import logging
import os
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

import torch  # noqa: F401 - loads the OpenMP runtime that the kernels share.

FLAGS = ("-O3", "-march=native", "-std=c++17", "-fPIC", "-shared", "-fopenmp", "-ffp-contract=fast", "-fno-math-errno")
CACHE_VARIABLE = "TRIMTAB_KERNEL_CACHE"
COMPILER_VARIABLE = "CXX"
_TIMEOUT_S = 300

_log = logging.getLogger(__name__)


class NativeUnavailable(Exception):
    """The kernels cannot be had here; the message says why and what would mend it."""


@cache
def load(name: str) -> ctypes.CDLL:
    """The library made of `name`.cpp. Raises `NativeUnavailable`."""
    source = Path(__file__).with_name(f"{name}.cpp")
    compiler = _compiler()
    content = source.read_bytes() + b"".join(path.read_bytes() for path in sorted(source.parent.glob("*.h")))
    key = hashlib.sha256(content + "\0".join((_version(compiler), *FLAGS, _processor())).encode()).hexdigest()[:20]
    built = _cache_dir() / f"{name}-{key}.so"
    if not built.exists():
        _build(compiler, source, built)
    try:
        return ctypes.CDLL(str(built))
    except OSError as error:
        raise NativeUnavailable(f"{built} cannot be loaded: {error}") from error


def processor_flags() -> frozenset[str]:
    """Instruction sets of this processor by Linux's names; empty where /proc/cpuinfo does not tell them."""
    for line in _cpuinfo():
        if line.startswith("flags"):
            return frozenset(line.split(":", 1)[1].split())
    return frozenset()


def _build(compiler: str, source: Path, built: Path) -> None:
    built.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=built.parent) as scratch:
        made = Path(scratch) / built.name
        command = [compiler, *FLAGS, str(source), "-o", str(made), *_openmp(), "-lm"]
        _log.info("building %s (once per machine)", built.name)
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise NativeUnavailable(f"{source.name} could not be compiled: {error}") from error
        if done.returncode:
            raise NativeUnavailable(f"{source.name} does not compile with {compiler}: {done.stderr.strip()[-800:]}")
        made.replace(built)


def _compiler() -> str:
    for candidate in (os.environ.get(COMPILER_VARIABLE), "g++", "c++", "clang++"):
        if candidate and (found := shutil.which(candidate)):
            return found
    raise NativeUnavailable("no C++ compiler; install g++ (Debian: apt-get install g++) for the native kernels")


def _version(compiler: str) -> str:
    return subprocess.run([compiler, "--version"], capture_output=True, text=True, check=False).stdout


def _processor() -> str:
    return " ".join(sorted(processor_flags()))


def _cpuinfo() -> list[str]:
    path = Path("/proc/cpuinfo")
    return path.read_text(encoding="utf-8").splitlines() if path.exists() else []


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
    """TRIMTAB_KERNEL_CACHE, or a folder for this user's caches."""
    if given := os.environ.get(CACHE_VARIABLE):
        return Path(given)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "trimtab" / "kernels"
