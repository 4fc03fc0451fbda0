"""Every domain's tables in one metadata, for migrations and their test."""

from sqlalchemy import MetaData
from sqlmodel import SQLModel


def all_tables() -> MetaData:
    return SQLModel.metadata
