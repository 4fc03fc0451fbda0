"""Telemetry by label sets, streams and resolutions; frames partitioned on PostgreSQL. Telemetry is not carried over.

Revision ID: 0002
Revises: 0001
"""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

RESOLUTIONS_S = (5, 10, 60, 300, 3600)


def upgrade() -> None:
    op.drop_table("telemetry_series")
    op.drop_table("telemetry_seen")
    op.drop_index(op.f("ix_telemetry_pending_window"), table_name="telemetry_pending")
    op.drop_table("telemetry_pending")
    op.drop_index(op.f("ix_telemetry_frame_window"), table_name="telemetry_frame")
    op.drop_table("telemetry_frame")
    op.create_table(
        "telemetry_metric",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("name", "kind"),
    )
    op.create_table(
        "telemetry_node",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("name"),
    )
    op.create_table(
        "telemetry_labels",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("key", sa.BigInteger(), nullable=False),
        sa.Column("labels", sa.Text(), nullable=False),
        sa.Column("fleet_id", sa.Integer(), nullable=True),
        sa.Column("block", sa.Integer(), nullable=False),
        sa.Column("tenant", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("key"),
    )
    op.create_table(
        "telemetry_pending",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False),
        sa.Column("first_window", sa.BigInteger(), nullable=False),
        sa.Column("last_window", sa.BigInteger(), nullable=False),
        sa.Column("written_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("points", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "telemetry_stream",
        sa.Column("stream", sa.LargeBinary(), nullable=False),
        sa.Column("high", sa.BigInteger(), nullable=False),
        sa.Column("below", sa.LargeBinary(), nullable=False),
        sa.Column("heard_ns", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("stream"),
    )
    op.create_table(
        "telemetry_seen",
        sa.Column("end_ns", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("resource", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("start_ns", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("hashes", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("end_ns", "resource", "start_ns"),
    )
    op.create_table(
        "telemetry_cumulative",
        sa.Column("key", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("state", sa.LargeBinary(), nullable=False),
        sa.Column("time_ns", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("key"),
    )
    op.create_table(
        "telemetry_frame",
        sa.Column("resolution", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("metric", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("block", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("window", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("frame", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("resolution", "metric", "block", "window"),
        postgresql_partition_by="LIST (resolution)",
    )
    op.create_index("ix_telemetry_frame_window", "telemetry_frame", ["resolution", "window"], unique=False)
    op.create_table(
        "telemetry_fold",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.Column("levels", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    if op.get_bind().dialect.name == "postgresql":
        op.execute("ALTER TABLE telemetry_pending ALTER COLUMN points SET STORAGE EXTERNAL")
        op.execute("ALTER TABLE telemetry_frame ALTER COLUMN frame SET STORAGE EXTERNAL")
        for resolution in RESOLUTIONS_S:
            level = f"telemetry_frame_partition_{resolution}"
            op.execute(
                f"CREATE TABLE {level} PARTITION OF telemetry_frame FOR VALUES IN ({resolution}) "
                'PARTITION BY RANGE ("window")'
            )
            op.execute(f"CREATE TABLE {level}_default PARTITION OF {level} DEFAULT")


def downgrade() -> None:
    op.drop_index("ix_telemetry_frame_window", table_name="telemetry_frame")
    for table in ("fold", "frame", "cumulative", "seen", "stream", "pending", "labels", "node", "metric"):
        op.drop_table(f"telemetry_{table}")
    op.create_table(
        "telemetry_frame",
        sa.Column("metric", sa.String(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("window", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("frame", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("metric", "kind", "window"),
    )
    op.create_index(op.f("ix_telemetry_frame_window"), "telemetry_frame", ["window"], unique=False)
    op.create_table(
        "telemetry_pending",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False),
        sa.Column("window", sa.BigInteger(), nullable=False),
        sa.Column("written_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("points", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sqlite_autoincrement=True,
    )
    op.create_index(op.f("ix_telemetry_pending_window"), "telemetry_pending", ["window"], unique=False)
    op.create_table(
        "telemetry_seen",
        sa.Column("end_ns", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("resource", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("start_ns", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("hashes", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("end_ns", "resource", "start_ns"),
    )
    op.create_table(
        "telemetry_series",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("key", sa.BigInteger(), nullable=False),
        sa.Column("metric", sa.String(), nullable=False),
        sa.Column("labels", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("key"),
    )
