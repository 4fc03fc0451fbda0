"""What is dear to start is started once for all files that follow each other in a worker and want it.

It ends where the next file has no use for it: a stack's services work as long as they run, and a browser's driver keeps
the event loop of its thread.
"""

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import TypeVar

import pytest

SHARED = ("stack", "browser")
"""The fixtures of it."""
T = TypeVar("T")
_WANTED = pytest.StashKey[dict[str, set[Path]]]()
"""The files whose tests want each."""
_RUNNING = pytest.StashKey[dict[str, tuple[object, ExitStack]]]()


def note_files(session: pytest.Session, wanted: dict[str, set[Path]]) -> None:
    session.stash[_WANTED] = wanted


def running(session: pytest.Session, name: str, start: Callable[[], AbstractContextManager[T]]) -> T:
    """What `start` began for this file or for one before it."""
    started = session.stash.setdefault(_RUNNING, {})
    if name not in started:
        with ExitStack() as undone:
            made = undone.enter_context(start())
            started[name] = made, undone.pop_all()
    return started[name][0]  # type: ignore[return-value]


def end(session: pytest.Session, names: Iterable[str] = SHARED) -> None:
    started = session.stash.setdefault(_RUNNING, {})
    for name in names:
        if name in started:
            started.pop(name)[1].close()


def end_unused(session: pytest.Session, nextitem: pytest.Item | None) -> None:
    """Ends what the file of the next test does not want."""
    for name, files in session.stash[_WANTED].items():
        if nextitem is None or nextitem.path not in files:
            end(session, [name])
