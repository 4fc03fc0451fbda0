"""The telemetry tables. Binary columns hold what `frame`, `pending`, `repeat` and `records` encode.

Times are integers: windows count `metrics.WINDOW_S` since the Unix epoch, event times are nanoseconds since it, so that
comparison and arithmetic are exact and the same on SQLite and PostgreSQL.
"""

from datetime import datetime

from sqlalchemy import BigInteger, Index, Integer, LargeBinary, Text
from sqlmodel import Column, Field, SQLModel

from controlplane.db.columns import UtcDateTime

SERIAL = BigInteger().with_variant(Integer, "sqlite")
"""A 64-bit id that the database hands out (SQLite does so for INTEGER only)."""


class SeriesRow(SQLModel, table=True):
    """One series: a metric (name on the wire) and its labels (canonical JSON). Never changed.

    `key` is the 64-bit hash of both: an index over the labels themselves could outgrow PostgreSQL's entry limit.
    """

    __tablename__ = "telemetry_series"

    id: int | None = Field(default=None, primary_key=True)
    key: int = Field(sa_column=Column(BigInteger, nullable=False, unique=True))
    metric: str
    labels: str = Field(sa_column=Column(Text, nullable=False))


class PendingRow(SQLModel, table=True):
    """Acknowledged points of one window that are not in a frame yet. Ids are never used twice: readers cache by id."""

    __tablename__ = "telemetry_pending"
    __table_args__ = {"sqlite_autoincrement": True}

    id: int | None = Field(default=None, sa_column=Column(SERIAL, primary_key=True, autoincrement=True))
    window: int = Field(sa_column=Column(BigInteger, nullable=False, index=True))
    written_at: datetime = Field(sa_column=Column(UtcDateTime, nullable=False))
    points: bytes = Field(sa_column=Column(LargeBinary, nullable=False))


class SeenRow(SQLModel, table=True):
    """The points already counted of one resource and one time span: 64-bit hashes, for recognising repeats."""

    __tablename__ = "telemetry_seen"

    end_ns: int = Field(sa_column=Column(BigInteger, primary_key=True, autoincrement=False))
    resource: int = Field(sa_column=Column(BigInteger, primary_key=True, autoincrement=False))
    start_ns: int = Field(sa_column=Column(BigInteger, primary_key=True, autoincrement=False))
    hashes: bytes = Field(sa_column=Column(LargeBinary, nullable=False))


class FrameRow(SQLModel, table=True):
    """All series of one metric and kind in one window. `version` grows when late data is merged in."""

    __tablename__ = "telemetry_frame"

    metric: str = Field(primary_key=True)
    kind: str = Field(primary_key=True)
    window: int = Field(sa_column=Column(BigInteger, primary_key=True, autoincrement=False, index=True))
    version: int = 1
    frame: bytes = Field(sa_column=Column(LargeBinary, nullable=False))


class RequestRow(SQLModel, table=True):
    """One finished request. `parts` is its waterfall as JSON, `hashes` its prompt's block hashes (int64)."""

    __tablename__ = "telemetry_request"
    __table_args__ = (
        Index("ix_telemetry_request_identity", "node", "request_id", "arrival_ns", unique=True),
        Index("ix_telemetry_request_pool_arrival", "pool", "arrival_ns"),
    )

    id: int | None = Field(default=None, sa_column=Column(SERIAL, primary_key=True, autoincrement=True))
    node: str
    pool: str
    model: str
    revision: int
    request_id: str
    arrival_ns: int = Field(sa_column=Column(BigInteger, nullable=False, index=True))
    e2e_s: float
    prompt_tokens: int = Field(sa_column=Column(BigInteger, nullable=False))
    cached_tokens: int = Field(sa_column=Column(BigInteger, nullable=False))
    output_tokens: int = Field(sa_column=Column(BigInteger, nullable=False))
    finish_reason: str
    block_size: int
    parts: bytes = Field(sa_column=Column(LargeBinary, nullable=False))
    hashes: bytes = Field(sa_column=Column(LargeBinary, nullable=False))
