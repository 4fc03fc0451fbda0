"""Statements that SQLAlchemy has compiled once serve all databases of a process, of one dialect.

Each engine would compile them anew, and each test has one of its own: a quarter of the CPU of tests with small
databases. A service has one database, so that it too compiles each statement once.
"""

from typing import Any

from sqlalchemy import Engine
from sqlalchemy.engine.default import DefaultDialect
from sqlalchemy.util import LRUCache

MOST = 5000
"""Statements of a dialect that are kept."""
_compiled: dict[type, LRUCache[Any, Any]] = {}


def share(create_engine: Any) -> Any:
    """`create_engine`, whose engines share them. Equal dialects are of one class from here on: they are a part of the
    keys, the mappers' too, which keep what a flush says."""
    DefaultDialect.__eq__ = lambda one, other: type(one) is type(other)  # type: ignore[method-assign, assignment]
    DefaultDialect.__hash__ = lambda one: hash(type(one))  # type: ignore[method-assign, assignment]

    def sharing(*given: Any, **more: Any) -> Engine:
        engine: Engine = create_engine(*given, **more)
        engine._compiled_cache = _compiled.setdefault(type(engine.dialect), LRUCache(MOST))
        return engine

    return sharing
