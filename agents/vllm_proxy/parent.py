"""A process that ends when its parent does."""

import ctypes
import os
import signal
import sys

from controlplane.contract.errors import BadRequest

PR_SET_PDEATHSIG = 1  # prctl(2)


def end_with_parent(parent_pid: int) -> None:
    """Have the kernel send this process a SIGTERM when the thread that started it ends, however it ends (Linux only).

    Sends it at once when `parent_pid` is no longer the parent.
    """
    if sys.platform != "linux":
        raise BadRequest("--end-with-parent: works on Linux only; leave it out", field="end_with_parent")
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGTERM):
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG)")
    if os.getppid() != parent_pid:
        os.kill(os.getpid(), signal.SIGTERM)
