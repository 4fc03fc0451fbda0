"""Gives each thread of this process its Python name for the kernel too, so that /proc tells whose CPU time it was.

As Python 3.14 does by itself. Threads that run already keep theirs.
"""

import contextlib
import sys
import threading
from pathlib import Path


def name_threads() -> None:
    """From now on; asked twice it does no more than once."""
    if sys.platform != "linux" or getattr(threading, "tailwright_named", False):
        return
    plain = threading.Thread.run

    def run(self: threading.Thread) -> None:
        with contextlib.suppress(OSError):
            Path(f"/proc/self/task/{threading.get_native_id()}/comm").write_text(self.name[:15], encoding="utf-8")
        plain(self)

    threading.Thread.run = run  # type: ignore[method-assign]
    threading.tailwright_named = True  # type: ignore[attr-defined]
