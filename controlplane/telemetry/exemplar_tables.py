"""The table of exemplars: single requests that stand for the tail of a window."""

from sqlalchemy import BigInteger, Index, LargeBinary
from sqlmodel import Column, Field, SQLModel

from controlplane.telemetry.tables import SERIAL


class ExemplarRow(SQLModel, table=True):
    """One of the slowest requests of a (metric, pool, prompt bucket, minute). `parts` and `batch` are JSON.

    `minute` counts minutes since the epoch at which the value was complete, `metric` is a short name. `request_id` (or
    the trace, where there is no request id) tells two of one node apart.
    """

    __tablename__ = "telemetry_exemplar"
    __table_args__ = (
        Index(
            "ix_telemetry_exemplar_identity",
            *("minute", "pool", "metric", "prompt_bucket", "node", "request_id", "trace_id"),
            unique=True,
        ),
        Index("ix_telemetry_exemplar_time", "metric", "time_ns"),
    )

    id: int | None = Field(default=None, sa_column=Column(SERIAL, primary_key=True, autoincrement=True))
    minute: int = Field(sa_column=Column(BigInteger, nullable=False))
    metric: str
    pool: str
    prompt_bucket: str
    value: float
    time_ns: int = Field(sa_column=Column(BigInteger, nullable=False))
    node: str
    model: str
    revision: int
    trace_id: str
    request_id: str
    arrival_ns: int | None = Field(default=None, sa_column=Column(BigInteger, nullable=True))
    prompt_tokens: int | None = Field(default=None, sa_column=Column(BigInteger, nullable=True))
    cached_tokens: int | None = Field(default=None, sa_column=Column(BigInteger, nullable=True))
    output_tokens: int | None = Field(default=None, sa_column=Column(BigInteger, nullable=True))
    finish_reason: str
    parts: bytes = Field(sa_column=Column(LargeBinary, nullable=False))
    batch: bytes = Field(sa_column=Column(LargeBinary, nullable=False))
