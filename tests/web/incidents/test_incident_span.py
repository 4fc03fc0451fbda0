"""The time, the pool and the metric that an incident's drawings are of."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.contract.bodies.alerts import Alert, AlertState, Severity
from controlplane.contract.on_call.incidents import IncidentAlert, IncidentDetail, IncidentState
from web.frame.selection import selection_of
from web.incidents.incident_span import BEFORE, metric_of, span_of

ONSET = datetime(2030, 1, 1, 12, tzinfo=UTC)


def alert_of(number: int, **labels: str) -> Alert:
    return Alert(
        id=number,
        fingerprint=f"f{number}",
        rule_id=1,
        rule="slow",
        state=AlertState.FIRING,
        severity=Severity.PAGE,
        labels={"pool": "chat", **labels},
        summary="slow",
        started_at=ONSET,
        threshold=0.25,
    )


def incident_of(*alerts: Alert, **more: Any) -> IncidentDetail:
    members = [IncidentAlert(alert=one, joined_at=ONSET, why="it is the first") for one in alerts]
    told: dict[str, Any] = {
        "id": 3,
        "state": IncidentState.OPEN,
        "severity": Severity.PAGE,
        "title": "TTFT p99 rose",
        "pool": "chat",
        "owner": None,
        "route": None,
        "onset_at": ONSET,
        "opened_at": ONSET + timedelta(seconds=30),
        "alerts": len(alerts),
        "firing": len(alerts),
        "silenced": False,
        "stage": None,
        "causes": [],
        "members": members,
        "notes": [],
        "timeline": [],
    }
    return IncidentDetail(**{**told, **more})


def test_it_is_the_incidents_own_whatever_the_address_says() -> None:
    seen = selection_of({"from": "now-7d", "pool": "other", "node": "n"}, ONSET + timedelta(hours=1))
    span = span_of(incident_of(alert_of(1, metric="ttft")), seen)
    assert span.selection.range.at(seen.now) == (ONSET - BEFORE, seen.now)
    assert span.selection.labels == {"role": "serving", "pool": "chat"} == span.labels
    assert (span.before, span.during) == ((ONSET - BEFORE, ONSET), (ONSET, seen.now))
    assert (span.metric, span.threshold_s) == ("ttft", 0.25)
    assert span.selection.query() == "?from=2030-01-01T11%3A30%3A00Z&to=now&pool=chat"


def test_what_is_drawn_is_the_alert_of_the_metric_whatever_else_has_the_same_cause() -> None:
    """A configuration that a node could not bring up tells most, and has no latency."""
    failed, slow = alert_of(1, kind="config_failed"), alert_of(2, metric="ttft")
    seen = selection_of({}, ONSET + timedelta(hours=1))
    span = span_of(incident_of(failed, slow), seen)
    assert span.lead == slow and (span.metric, span.threshold_s) == ("ttft", 0.25)
    alone = span_of(incident_of(failed), seen)
    assert alone.lead == failed and (alone.metric, alone.threshold_s) == ("e2e", None)


def test_one_that_is_over_ends_shortly_after() -> None:
    over = incident_of(alert_of(1), resolved_at=ONSET + timedelta(minutes=20), state=IncidentState.RESOLVED)
    span = span_of(over, selection_of({}, ONSET + timedelta(days=3)))
    assert span.selection.range.at(ONSET)[1] == ONSET + timedelta(minutes=30)
    assert span.during == (ONSET, ONSET + timedelta(minutes=20))


@pytest.mark.parametrize(
    ("metrics", "wanted"), [(["kv_usage", "itl"], "itl"), (["nonsense"], "e2e"), ([""], "e2e"), ([], "e2e")]
)
def test_the_metric_is_a_latency(metrics: list[str], wanted: str) -> None:
    incident = incident_of(*(alert_of(place, metric=name) for place, name in enumerate(metrics, 1)))
    assert metric_of(incident) == wanted
    assert span_of(incident, selection_of({}, ONSET)).threshold_s == (0.25 if wanted in metrics else None)


@given(st.integers(-3600, 200 * 86_400), st.none() | st.integers(0, 150 * 86_400))
def test_every_span_is_one_that_may_be_asked(now_s: int, resolved_s: int | None) -> None:
    ended = None if resolved_s is None else ONSET + timedelta(seconds=resolved_s)
    now = ONSET + timedelta(seconds=now_s)
    span = span_of(incident_of(alert_of(1), resolved_at=ended), selection_of({}, now))
    start, end = span.selection.range.at(now)
    assert start < end or now < start, "before its onset nobody sees an incident"
    assert end - start <= timedelta(days=92)
    assert all(first < last for first, last in (span.before, span.during))
