"""What vLLM is started with so that it is at its best on a CPU, with no more cores than the others.

vLLM 0.32 recommends preloading Intel's OpenMP and tcmalloc; both are used where they lie in its environment or
on the system. With its default binding, its server keeps one core free of model threads, which on a small machine would
halve it: it is bound to exactly the cores that every contestant gets.
"""

import ctypes.util
from collections.abc import Sequence
from pathlib import Path

from agents.backends.vllm.server_variables import OFFLINE

_SYSTEM = (Path("/usr/lib/x86_64-linux-gnu"), Path("/usr/lib64"), Path("/usr/lib"))


def preload(python: str) -> str:
    """LD_PRELOAD's value; empty when nothing was found."""
    root = Path(python).absolute().parent.parent
    found: list[str] = []
    for pattern in ("libtcmalloc_minimal.so*", "libtcmalloc.so*"):
        places = [*root.rglob(f"vllm/libs/{pattern}"), *(root / "lib").glob(pattern)]
        places += [path for folder in _SYSTEM for path in folder.glob(pattern)]
        if places:
            found.append(str(sorted(places)[0]))
            break
    if (intel := root / "lib" / "libiomp5.so").is_file() or ctypes.util.find_library("iomp5"):
        found.append(str(intel) if intel.is_file() else "libiomp5.so")
    return ":".join(found)


def common_environment(python: str) -> dict[str, str]:
    return {
        "LD_PRELOAD": preload(python),
        "VLLM_CPU_KVCACHE_SPACE": "1",
        **OFFLINE,
    }


def in_process_environment(python: str) -> dict[str, str]:
    """For `LLM` stepped in one process: its threads are those of OMP_NUM_THREADS."""
    return {**common_environment(python), "VLLM_ENABLE_V1_MULTIPROCESSING": "0"}


def server_environment(python: str, cores: Sequence[int]) -> dict[str, str]:
    """For `vllm serve`: its worker's threads are bound one to each of `cores`."""
    return {**common_environment(python), "VLLM_CPU_OMP_THREADS_BIND": ",".join(map(str, cores))}
