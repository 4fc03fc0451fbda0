"""Processes that end in time: children with their parent, and a service without delay."""

import logging
import os
import sys
from typing import NoReturn

from controlplane.terminal.parent_death import ask_for_sigterm


def die_with_parent() -> None:
    """For `preexec_fn`: ask the kernel to send SIGTERM when the parent dies, however it dies (Linux only)."""
    if sys.platform == "linux":
        ask_for_sigterm()


def one_thread_each() -> dict[str, str]:
    """The environment with numeric libraries held to one thread: two of them with many stall each other."""
    threads = {name: "1" for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")}
    return {**os.environ, **threads, "PYTHONUNBUFFERED": "1"}


def leave(status: int) -> NoReturn:
    """End this process now. What is durable is on the disk: taking a service's objects apart one by one, and waiting
    for threads that it has left behind, takes seconds and serves nobody."""
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)
