"""A process whose memory no other of its user reads, in which keys are: no core dump, no debugger (Linux; prctl(2)).

The kernel then also gives the process's files below /proc to root: who measures it from outside as its user sees less.
What the process executes later is not bound by it, but writes no core either.
"""

import ctypes
import resource
import sys

_SET_DUMPABLE = 4  # prctl(2), PR_SET_DUMPABLE.


def close_memory() -> None:
    """From now on. Raises OSError where the kernel refuses."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    if sys.platform == "linux" and ctypes.CDLL(None, use_errno=True).prctl(_SET_DUMPABLE, 0, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_DUMPABLE)")
