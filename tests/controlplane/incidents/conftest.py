"""Alerts made by hand, and a database in a file."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import controlplane.auth.tables
import controlplane.fleet.tables
import controlplane.incidents.tables
import controlplane.ledger.tables  # noqa: F401
from controlplane.alerts.tables import AlertRow
from controlplane.contract.bodies.alerts import Alert, AlertState, Diagnosis, Severity
from controlplane.db import Database
from tests.made_tables import create_tables

START = datetime(2030, 1, 1, 12, tzinfo=UTC)


def alert_of(number: int, *, began_s: float = 0.0, ended_s: float | None = None, **more: Any) -> Alert:
    """An alert that fired ten seconds after it began; `labels`, `stage`, `causes` and `severity` may be given."""
    labels = {"kind": "regression", "pool": "chat", "metric": "ttft", **more.get("labels", {})}
    diagnosis = None
    if "stage" in more or "causes" in more:
        diagnosis = Diagnosis(stage=more.get("stage"), summary="diagnosed", causes=more.get("causes", []))
    began = START + timedelta(seconds=began_s)
    return Alert(
        id=number,
        fingerprint=more.get("fingerprint", f"print-{number}"),
        rule_id=1,
        rule=more.get("rule", "Latency regression"),
        state=AlertState.FIRING if ended_s is None else AlertState.RESOLVED,
        severity=more.get("severity", Severity.PAGE),
        labels={name: value for name, value in labels.items() if value},
        summary=more.get("summary", f"alert {number} is slow"),
        started_at=began,
        fired_at=began + timedelta(seconds=10),
        resolved_at=None if ended_s is None else START + timedelta(seconds=ended_s),
        diagnosis=diagnosis,
        evidence=more.get("evidence", {}),
        value=more.get("value"),
        silenced=more.get("silenced", False),
    )


@pytest.fixture
def alert() -> Callable[..., Alert]:
    return alert_of


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    made = Database(f"sqlite:///{tmp_path}/tailwright.db")
    create_tables(made)
    yield made
    made.close()


@pytest.fixture
def put(database: Database) -> Callable[[Alert], None]:
    return writer_of(database)


def writer_of(database: Database) -> Callable[[Alert], None]:
    """Writes an alert as the evaluator would have, or what has become of it since."""

    def write(made: Alert) -> None:
        fields = made.model_dump(mode="json")
        times = {name: getattr(made, name) for name in ("started_at", "fired_at", "resolved_at")}
        with database.session() as session:
            session.merge(
                AlertRow(
                    **{**fields, **times},
                    kind=made.labels["kind"],
                    pool=made.labels.get("pool", ""),
                    breach_since=made.started_at,
                )
            )

    return write
