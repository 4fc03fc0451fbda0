"""Which key is in use; and the type of a column that holds secrets."""

from typing import Any

from sqlalchemy import DDL, Column, Dialect, MetaData, String, event
from sqlalchemy.types import TypeDecorator
from sqlmodel import Field, SQLModel

from controlplane.keys.encryption import Encrypted


class EncryptedText(TypeDecorator[str]):
    """A column of secrets: takes and gives `Encrypted` alone. Raises ValueError for text in clear."""

    impl = String
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> Any:
        return None if value is None else str(Encrypted(value))

    def process_result_value(self, value: str | None, dialect: Dialect) -> Encrypted | None:
        return None if value is None else Encrypted(value)


class EncryptionKeyRow(SQLModel, table=True):
    """One row: the id of the key that secrets are encrypted with. Who locks it may change that."""

    __tablename__ = "encryption_key"

    id: int | None = Field(default=None, primary_key=True)
    key_id: str | None = None  # None before the first start.


def encrypted_columns(metadata: MetaData) -> "list[Column[Any]]":
    """Every column of secrets."""
    return [
        column for table in metadata.sorted_tables for column in table.columns if isinstance(column.type, EncryptedText)
    ]


_BEGIN = "INSERT INTO encryption_key (id, key_id) VALUES (1, NULL)"
# As the first migration does; the library has no annotation on it.
event.listen(SQLModel.metadata.tables["encryption_key"], "after_create", DDL(_BEGIN))  # type: ignore[no-untyped-call]
