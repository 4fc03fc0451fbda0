"""Child processes that do not outlive their parent."""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1  # prctl(2)


def die_with_parent() -> None:
    """For `preexec_fn`: ask the kernel to send SIGTERM when the parent dies, however it dies (Linux only)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


def one_thread_each() -> dict[str, str]:
    """The environment with numeric libraries held to one thread: two of them with many stall each other."""
    threads = {name: "1" for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")}
    return {**os.environ, **threads, "PYTHONUNBUFFERED": "1"}
