"""Label sets know when they were last used, and are forgotten once nothing holds them

Revision ID: 0008
Revises: 0007
"""

import time

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # Nobody knows when those that are there were last used: the longest retention begins for all of them now.
    now = sa.Column("used_ns", sa.BigInteger(), nullable=False, server_default=str(time.time_ns()))
    op.add_column("telemetry_labels", now)
    op.create_index("ix_telemetry_labels_used_ns", "telemetry_labels", ["used_ns"])


def downgrade() -> None:
    op.drop_index("ix_telemetry_labels_used_ns", "telemetry_labels")
    op.drop_column("telemetry_labels", "used_ns")
