"""The kernel's word that a parent has died (Linux only)."""

import ctypes
import signal

_SET_PARENT_DEATH_SIGNAL = 1  # prctl(2), PR_SET_PDEATHSIG.


def ask_for_sigterm() -> None:
    """Have the kernel send this process a SIGTERM when the thread that started it ends, however it ends.

    Raises OSError where the kernel refuses.
    """
    if ctypes.CDLL(None, use_errno=True).prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGTERM):
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG)")
