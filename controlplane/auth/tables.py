"""Tokens at rest: the hash only. Fleet-wide secrets the service itself must be able to read."""

from datetime import datetime

from sqlmodel import JSON, Column, Field, SQLModel

from controlplane.db.column_types import UtcDateTime
from controlplane.keys.tables import EncryptedText


class TokenRow(SQLModel, table=True):
    __tablename__ = "token"

    id: int | None = Field(default=None, primary_key=True)
    name: str
    scope: str
    node: str | None = Field(default=None, index=True)
    pool: str | None = None  # That its node was enrolled in.
    replaces: int | None = Field(default=None, foreign_key="token.id")  # The token that its first use ends.
    digest: str = Field(unique=True, index=True)
    owner: str | None = None
    made_by: int | None = Field(default=None, foreign_key="token.id")  # The token that asked for it.
    created_at: datetime = Field(sa_column=Column(UtcDateTime, nullable=False))
    expires_at: datetime | None = Field(default=None, sa_column=Column(UtcDateTime, nullable=True))
    last_used_at: datetime | None = Field(default=None, sa_column=Column(UtcDateTime, nullable=True))
    revoked_at: datetime | None = Field(default=None, sa_column=Column(UtcDateTime, nullable=True))


class EnrolmentRulesRow(SQLModel, table=True):
    """What a token of scope enrol may register (null: anything), and how many times more."""

    __tablename__ = "enrolment_rules"

    token_id: int = Field(primary_key=True, foreign_key="token.id")
    uses: int | None = None
    pools: list[str] | None = Field(default=None, sa_column=Column(JSON(none_as_null=True), nullable=True))
    roles: list[str] | None = Field(default=None, sa_column=Column(JSON(none_as_null=True), nullable=True))
    nodes: str | None = None


class SignInCodeRow(SQLModel, table=True):
    """A code that starts one browser's session; used up, it is deleted."""

    __tablename__ = "sign_in_code"

    digest: str = Field(primary_key=True)
    token_id: int = Field(foreign_key="token.id")
    expires_at: datetime = Field(sa_column=Column(UtcDateTime, nullable=False))


class PersonRow(SQLModel, table=True):
    """Somebody whom the issuer has named: known by its address and subject, which never change, and found by a keyed
    hash of both; the rest is as of the last sign-in."""

    __tablename__ = "person"
    __table_args__ = {"sqlite_autoincrement": True}

    id: int | None = Field(default=None, primary_key=True)
    issuer: str
    subject: str | None = Field(
        default=None, sa_column=Column(EncryptedText, nullable=True)
    )  # Null until it has an id.
    digest: str = Field(unique=True, index=True)
    name: str
    role: str
    first_seen_at: datetime = Field(sa_column=Column(UtcDateTime, nullable=False))
    signed_in_at: datetime = Field(sa_column=Column(UtcDateTime, nullable=False))


class SignInAttemptRow(SQLModel, table=True):
    """An attempt to sign in at the issuer that has led to a session, by its hash: it leads to no second one."""

    __tablename__ = "sign_in_attempt"

    digest: str = Field(primary_key=True)
    expires_at: datetime = Field(sa_column=Column(UtcDateTime, nullable=False))


class BrowserSessionRow(SQLModel, table=True):
    """A browser's session as a token or as a person; ended, it is deleted."""

    __tablename__ = "browser_session"

    id: int | None = Field(default=None, primary_key=True)
    digest: str = Field(unique=True, index=True)
    token_id: int | None = Field(default=None, foreign_key="token.id")
    person_id: int | None = Field(default=None, foreign_key="person.id", index=True)
    address: str | None = Field(default=None, sa_column=Column(EncryptedText, nullable=True))
    started_at: datetime = Field(sa_column=Column(UtcDateTime, nullable=False))
    used_at: datetime = Field(sa_column=Column(UtcDateTime, nullable=False))


class FleetSecretRow(SQLModel, table=True):
    """A key of the whole fleet, encrypted: the one that hashes prompt blocks, which enrolled agents share, and the one
    that hashes who people are."""

    __tablename__ = "fleet_secret"

    name: str = Field(primary_key=True)
    value: str = Field(sa_column=Column(EncryptedText, nullable=False))
