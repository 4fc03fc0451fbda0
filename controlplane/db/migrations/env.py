"""Alembic's environment. It runs on the connection it is handed (`controlplane.db.migrate`), never on a URL."""

from typing import Any, Literal

from alembic import context
from sqlalchemy import JSON
from sqlalchemy.types import TypeDecorator

from controlplane.db.partitions import is_table

attributes = context.config.attributes


def plain_types(kind: str, item: Any, _: Any) -> str | Literal[False]:
    """Steps name the database's types, not ours: they must keep their meaning when our classes change."""
    if kind == "type" and isinstance(item, TypeDecorator):
        return f"sa.{item.impl_instance!r}"
    if kind == "type" and isinstance(item, JSON):
        return "sa.JSON()"
    return False


context.configure(
    connection=attributes["connection"],
    target_metadata=attributes.get("metadata"),
    compare_type=True,
    include_name=is_table,
    render_item=plain_types,
)
context.run_migrations()
