"""The telemetry tables. Binary columns hold what `frame`, `pending`, `repeat`, `stream_identity` and `records` encode.

Times are integers: windows count `metrics.WINDOW_S` (in `telemetry_frame` its `resolution`) since the Unix epoch, event
times are nanoseconds since it, so that comparison and arithmetic are exact and the same on SQLite and PostgreSQL.
"""

from datetime import datetime

from sqlalchemy import DDL, BigInteger, Index, Integer, LargeBinary, Text, UniqueConstraint, event
from sqlmodel import Column, Field, SQLModel

from controlplane.db.column_types import UtcDateTime
from controlplane.telemetry.values import frame_partitions

SERIAL = BigInteger().with_variant(Integer, "sqlite")
"""A 64-bit id that the database hands out (SQLite does so for INTEGER only)."""


class MetricRow(SQLModel, table=True):
    """One metric: its name on the wire and what it is. Never changed."""

    __tablename__ = "telemetry_metric"
    __table_args__ = (UniqueConstraint("name", "kind"),)

    id: int | None = Field(default=None, primary_key=True)
    name: str
    kind: str


class NodeRow(SQLModel, table=True):
    """One node. Its id says in which block of frames its rows are (`names.BLOCK_NODES`). Never changed."""

    __tablename__ = "telemetry_node"

    id: int | None = Field(default=None, primary_key=True)
    name: str = Field(unique=True)


class LabelsRow(SQLModel, table=True):
    """One set of labels as canonical JSON, however many metrics have it. Only `used_ns` changes.

    `key` is its 64-bit hash: an index over the labels themselves could outgrow PostgreSQL's entry limit. `fleet_id`:
    the same set without `node`; NULL where the set names no node. `block`: that of its node. `tenant`: "" for none.
    `used_ns`: when points of it were last written, at most `label_use.KNOWN_FOR_S` late.
    """

    __tablename__ = "telemetry_labels"

    id: int | None = Field(default=None, primary_key=True)
    key: int = Field(sa_column=Column(BigInteger, nullable=False, unique=True))
    labels: str = Field(sa_column=Column(Text, nullable=False))
    fleet_id: int | None = None
    block: int
    tenant: str
    used_ns: int = Field(sa_column=Column(BigInteger, nullable=False, index=True))


class PendingRow(SQLModel, table=True):
    """The points of one commit that are not in frames yet. Ids are never used twice: readers cache by id."""

    __tablename__ = "telemetry_pending"
    __table_args__ = {"sqlite_autoincrement": True}

    id: int | None = Field(default=None, sa_column=Column(SERIAL, primary_key=True, autoincrement=True))
    first_window: int = Field(sa_column=Column(BigInteger, nullable=False))
    last_window: int = Field(sa_column=Column(BigInteger, nullable=False))
    written_at: datetime = Field(sa_column=Column(UtcDateTime, nullable=False))
    points: bytes = Field(sa_column=Column(LargeBinary, nullable=False))


class StreamRow(SQLModel, table=True):
    """Which reports of one sender's stream were counted: the newest ordinal, and short digests back from it."""

    __tablename__ = "telemetry_stream"

    stream: bytes = Field(sa_column=Column(LargeBinary, primary_key=True))
    high: int = Field(sa_column=Column(BigInteger, nullable=False))
    digests: bytes = Field(sa_column=Column(LargeBinary, nullable=False))
    heard_ns: int = Field(sa_column=Column(BigInteger, nullable=False))


class SeenRow(SQLModel, table=True):
    """The points already counted of one resource and one time span: 64-bit hashes, for recognising repeats."""

    __tablename__ = "telemetry_seen"

    end_ns: int = Field(sa_column=Column(BigInteger, primary_key=True, autoincrement=False))
    resource: int = Field(sa_column=Column(BigInteger, primary_key=True, autoincrement=False))
    start_ns: int = Field(sa_column=Column(BigInteger, primary_key=True, autoincrement=False))
    hashes: bytes = Field(sa_column=Column(LargeBinary, nullable=False))


class CumulativeRow(SQLModel, table=True):
    """The newest point of one series that its sender reports as a running total. `state`: see `cumulative`.

    `time_ns` is that point's; a row may go once points as old as that are no longer accepted.
    """

    __tablename__ = "telemetry_cumulative"

    key: int = Field(sa_column=Column(BigInteger, primary_key=True, autoincrement=False))
    state: bytes = Field(sa_column=Column(LargeBinary, nullable=False))
    time_ns: int = Field(sa_column=Column(BigInteger, nullable=False))


class FrameRow(SQLModel, table=True):
    """A metric's rows in one window: of a block of nodes, or of the fleet (`block` -1, nodes summed).

    `resolution` is the width of the window in seconds, one of `frame_partitions.RESOLUTIONS_S`; `window` counts such
    widths. `version` grows when late data is merged in. On PostgreSQL each resolution is partitioned by window.
    """

    __tablename__ = "telemetry_frame"
    __table_args__ = (
        Index("ix_telemetry_frame_window", "resolution", "window"),
        {"postgresql_partition_by": "LIST (resolution)"},
    )

    resolution: int = Field(primary_key=True, sa_column_kwargs={"autoincrement": False})
    metric: int = Field(primary_key=True, sa_column_kwargs={"autoincrement": False})
    block: int = Field(primary_key=True, sa_column_kwargs={"autoincrement": False})
    window: int = Field(sa_column=Column(BigInteger, primary_key=True, autoincrement=False))
    version: int = 1
    frame: bytes = Field(sa_column=Column(LargeBinary, nullable=False))


def _after_create(table: str, statement: str) -> None:
    """Only on PostgreSQL."""
    ddl = DDL(statement).execute_if(dialect="postgresql")  # type: ignore[no-untyped-call]
    event.listen(SQLModel.metadata.tables[table], "after_create", ddl)


# What is in these columns is compressed already, or lives for half a minute.
_after_create("telemetry_pending", "ALTER TABLE telemetry_pending ALTER COLUMN points SET STORAGE EXTERNAL")
_after_create("telemetry_frame", "ALTER TABLE telemetry_frame ALTER COLUMN frame SET STORAGE EXTERNAL")
for _statement in frame_partitions.FIRST:
    _after_create("telemetry_frame", _statement)


class FoldRow(SQLModel, table=True):
    """How far folding has come: one row, with id 1, made by the first fold.

    `number` counts folds; a fold raises it where it is still what it had read, so that two can never both commit.
    `levels`: JSON, resolution to [first window kept, windows built up to], in windows of that resolution.
    """

    __tablename__ = "telemetry_fold"

    id: int | None = Field(default=None, primary_key=True)
    number: int = Field(sa_column=Column(BigInteger, nullable=False))
    levels: str = Field(sa_column=Column(Text, nullable=False))


class RequestRow(SQLModel, table=True):
    """One finished request. `parts` is its waterfall as JSON, `hashes` its prompt's block hashes (int64).

    `trace_id` is hexadecimal; `batch` is JSON, what the engine ran beside the request, where the sender told; so are
    `tenant` and `region`.
    """

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
    ttft_s: float | None = None
    prompt_tokens: int = Field(sa_column=Column(BigInteger, nullable=False))
    cached_tokens: int = Field(sa_column=Column(BigInteger, nullable=False))
    output_tokens: int = Field(sa_column=Column(BigInteger, nullable=False))
    finish_reason: str
    tenant: str = ""
    region: str = ""
    block_size: int
    parts: bytes = Field(sa_column=Column(LargeBinary, nullable=False))
    hashes: bytes = Field(sa_column=Column(LargeBinary, nullable=False))
    trace_id: str = ""
    batch: bytes = Field(default=b"{}", sa_column=Column(LargeBinary, nullable=False))


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
        Index("ix_telemetry_exemplar_request", "request_id"),
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
