"""A study keeps the pool's revision that it is measured against

Revision ID: 0007
Revises: 0006
"""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("study", sa.Column("default_revision", sa.Integer(), nullable=True))


def downgrade() -> None:
    op.drop_column("study", "default_revision")
