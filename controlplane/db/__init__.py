"""The relational store beneath every domain: SQLite by default, PostgreSQL by URL."""

from controlplane.db.column_types import JsonColumn, UtcDateTime
from controlplane.db.database import Database
from controlplane.db.request_parts import SessionDep

__all__ = ["Database", "JsonColumn", "SessionDep", "UtcDateTime"]
