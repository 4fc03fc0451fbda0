"""Every domain's tables in one metadata, for migrations and their test."""

from sqlalchemy import MetaData
from sqlmodel import SQLModel

from controlplane.alerts import tables as _alerts
from controlplane.auth import tables as _auth
from controlplane.db import keyed_answers as _keyed_answers
from controlplane.db import probe as _probe
from controlplane.fleet import tables as _fleet
from controlplane.inbound import tables as _inbound
from controlplane.incidents import tables as _incidents
from controlplane.keys import tables as _keys
from controlplane.ledger import tables as _ledger
from controlplane.rollouts import tables as _rollouts
from controlplane.rollouts.hooks import tables as _hooks
from controlplane.rollouts.policies import tables as _policies
from controlplane.studies import tables as _studies
from controlplane.telemetry import tables as _telemetry
from controlplane.telemetry.values import export_tables as _exports

MODULES = (
    *(_alerts, _auth, _exports, _fleet, _hooks, _inbound, _incidents, _keys),
    *(_keyed_answers, _ledger, _policies, _probe, _rollouts, _studies, _telemetry),
)
"""Where tables are declared: a module is in the metadata once it has been imported."""


def all_tables() -> MetaData:
    return SQLModel.metadata
