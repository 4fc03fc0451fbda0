"""The relational store beneath every domain: SQLite by default, PostgreSQL by URL."""

from controlplane.db.columns import JsonColumn, UtcDateTime
from controlplane.db.database import Database, SessionDep

__all__ = ["Database", "JsonColumn", "SessionDep", "UtcDateTime"]
