"""How many tokens this process has revoked, by database: whoever remembers tokens sees at once that one has ended.

Guarantee: the number has grown before the call that commits a revocation returns, and never for one that was rolled
back.
"""

import threading
from weakref import WeakKeyDictionary

from sqlalchemy import Engine, event
from sqlmodel import Session

_lock = threading.Lock()
_numbers: WeakKeyDictionary[Engine, int] = WeakKeyDictionary()


def number(engine: Engine) -> int:
    """Grows with each commit that revoked a token."""
    return _numbers.get(engine, 0)


def count(session: Session) -> None:
    """The caller's transaction revokes a token: count it once that is committed."""
    engine = session.get_bind().engine

    def committed(_: Session) -> None:
        with _lock:
            _numbers[engine] = number(engine) + 1

    event.listen(session, "after_commit", committed)
