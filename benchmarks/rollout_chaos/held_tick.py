"""A replica's tick that is held still where it is about to write, and goes on when it is let go."""

import threading
from collections.abc import Callable


class HeldTick:
    """In a thread of its own, which runs while it is waited for alone: what happens is the same each time.

    steps_left: until it is let go; None: until something has happened.
    """

    def __init__(self, tick: Callable[[], None]) -> None:
        self.steps_left: int | None = None
        self._stopped, self._on = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, args=(tick,), daemon=True)
        self.is_held = False
        self._thread.start()
        self._stopped.wait()

    def let_go(self) -> None:
        """Returns when it has done what it was about to do."""
        self._on.set()
        self._thread.join()

    def _run(self, tick: Callable[[], None]) -> None:
        _current.held = self
        try:
            tick()
        finally:
            self._stopped.set()

    @staticmethod
    def stand_still() -> None:
        """Called where it is about to write; elsewhere it does nothing."""
        held: HeldTick | None = getattr(_current, "held", None)
        if held is not None and not held._on.is_set():
            held.is_held = True
            held._stopped.set()
            held._on.wait()


_current = threading.local()
