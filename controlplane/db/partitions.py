"""Names of PostgreSQL partitions, so that whoever compares a database with our tables can tell them from tables."""

_MARK = "_partition_"


def partition_name(table: str, *parts: str | int) -> str:
    return table + _MARK + "_".join(str(part) for part in parts)


def is_partition(name: str | None) -> bool:
    return name is not None and _MARK in name


def is_table(name: str | None, kind: str, _: object) -> bool:
    """Alembic's `include_name`: partitions come and go with time and are no part of the schema."""
    return kind != "table" or not is_partition(name)
