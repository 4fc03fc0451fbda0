"""Every domain's tables in one metadata, for migrations and their test."""

from sqlalchemy import MetaData
from sqlmodel import SQLModel

import controlplane.alerts.tables
import controlplane.auth.tables
import controlplane.db.probe
import controlplane.fleet.tables
import controlplane.ledger.tables
import controlplane.rollouts.tables
import controlplane.studies.tables
import controlplane.telemetry.exemplar_tables
import controlplane.telemetry.export.tables
import controlplane.telemetry.tables  # noqa: F401


def all_tables() -> MetaData:
    return SQLModel.metadata
