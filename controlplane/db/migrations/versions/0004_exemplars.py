"""The slowest requests of each window, and what the engine ran beside each request.

Revision ID: 0004
Revises: 0003
"""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

IDENTITY = ["minute", "pool", "metric", "prompt_bucket", "node", "request_id", "trace_id"]


def upgrade() -> None:
    empty = "'{}'::bytea" if op.get_bind().dialect.name == "postgresql" else "x'7b7d'"
    op.add_column("telemetry_request", sa.Column("trace_id", sa.String(), nullable=False, server_default=""))
    op.add_column(
        "telemetry_request", sa.Column("batch", sa.LargeBinary(), nullable=False, server_default=sa.text(empty))
    )
    op.create_table(
        "telemetry_exemplar",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False),
        sa.Column("minute", sa.BigInteger(), nullable=False),
        sa.Column("metric", sa.String(), nullable=False),
        sa.Column("pool", sa.String(), nullable=False),
        sa.Column("prompt_bucket", sa.String(), nullable=False),
        sa.Column("value", sa.Float(), nullable=False),
        sa.Column("time_ns", sa.BigInteger(), nullable=False),
        sa.Column("node", sa.String(), nullable=False),
        sa.Column("model", sa.String(), nullable=False),
        sa.Column("revision", sa.Integer(), nullable=False),
        sa.Column("trace_id", sa.String(), nullable=False),
        sa.Column("request_id", sa.String(), nullable=False),
        sa.Column("arrival_ns", sa.BigInteger(), nullable=True),
        sa.Column("prompt_tokens", sa.BigInteger(), nullable=True),
        sa.Column("cached_tokens", sa.BigInteger(), nullable=True),
        sa.Column("output_tokens", sa.BigInteger(), nullable=True),
        sa.Column("finish_reason", sa.String(), nullable=False),
        sa.Column("parts", sa.LargeBinary(), nullable=False),
        sa.Column("batch", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("ix_telemetry_exemplar_identity", "telemetry_exemplar", IDENTITY, unique=True)
    op.create_index("ix_telemetry_exemplar_time", "telemetry_exemplar", ["metric", "time_ns"], unique=False)


def downgrade() -> None:
    op.drop_index("ix_telemetry_exemplar_time", table_name="telemetry_exemplar")
    op.drop_index("ix_telemetry_exemplar_identity", table_name="telemetry_exemplar")
    op.drop_table("telemetry_exemplar")
    op.drop_column("telemetry_request", "batch")
    op.drop_column("telemetry_request", "trace_id")
