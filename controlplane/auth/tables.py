"""Tokens at rest: the hash only. Fleet-wide secrets the service itself must be able to read."""

from datetime import datetime

from sqlmodel import Column, Field, SQLModel

from controlplane.db.column_types import UtcDateTime


class TokenRow(SQLModel, table=True):
    __tablename__ = "token"

    id: int | None = Field(default=None, primary_key=True)
    name: str
    scope: str
    node: str | None = Field(default=None, index=True)
    digest: str = Field(unique=True, index=True)
    created_at: datetime = Field(sa_column=Column(UtcDateTime, nullable=False))
    revoked_at: datetime | None = Field(default=None, sa_column=Column(UtcDateTime, nullable=True))


class SignInCodeRow(SQLModel, table=True):
    """A code that starts one browser's session; used up, it is deleted."""

    __tablename__ = "sign_in_code"

    digest: str = Field(primary_key=True)
    token_id: int = Field(foreign_key="token.id")
    expires_at: datetime = Field(sa_column=Column(UtcDateTime, nullable=False))


class BrowserSessionRow(SQLModel, table=True):
    """A browser's session as a token; ended, it is deleted."""

    __tablename__ = "browser_session"

    id: int | None = Field(default=None, primary_key=True)
    digest: str = Field(unique=True, index=True)
    token_id: int = Field(foreign_key="token.id")
    started_at: datetime = Field(sa_column=Column(UtcDateTime, nullable=False))
    used_at: datetime = Field(sa_column=Column(UtcDateTime, nullable=False))


class FleetSecretRow(SQLModel, table=True):
    """A secret shared with enrolled agents (the key that hashes prompt blocks)."""

    __tablename__ = "fleet_secret"

    name: str = Field(primary_key=True)
    value: str
