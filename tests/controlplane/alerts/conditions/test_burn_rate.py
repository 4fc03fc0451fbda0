"""Burn rates through the real store and evaluator: what pages, what waits for the morning, and what does neither."""

from collections.abc import Iterator

import pytest

from controlplane.alerts.conditions.burn_rate import Pair
from controlplane.alerts.dry_run.dry_run import dry_run, past_of
from controlplane.contract.bodies.alerts import (
    AlertRuleCreate,
    AlertState,
    BurnRateCondition,
    DryRunCreate,
    Severity,
)
from controlplane.contract.bodies.slo import Limit
from controlplane.contract.retention_defaults import LEVELS_S
from controlplane.db import Database
from tests.controlplane.alerts.symptoms.made_fleet import MadeFleet
from tests.controlplane.alerts.symptoms.series import Report, Series, Window, values

CONDITION = BurnRateCondition(objectives=[Limit(metric="ttft", q=0.99, limit_s=1.0)])


@pytest.fixture
def fleet(database: Database) -> Iterator[MadeFleet]:
    made = MadeFleet(database)
    for severity in Severity:
        made.make_rule(CONDITION, severity)
    yield made
    made.store.close()


def slow(count: int, of: int) -> Window:
    """`count` of `of` requests take ten seconds and more."""

    def window(_: float) -> Iterator[Report]:
        yield "a", "ttft", [0.1] * (of - count) + [20.0] * count, {}

    return window


def burning(count: int, of: int) -> Series:
    return Series(values("a", "ttft", 0.1, of), slow(count, of), (0, 0), step_s=30.0)


def severities(fleet: MadeFleet) -> list[Severity]:
    return sorted(alert.severity for alert in fleet.alerts())


@pytest.mark.slow
def test_half_of_all_requests_page_within_minutes_and_the_page_ends_when_they_are_quick_again(fleet: MadeFleet) -> None:
    series = burning(20, 40)
    fleet.serve(series, 1800, wrong=False)
    assert fleet.alerts() == []
    began = fleet.now
    fleet.serve(series, 1500, wrong=True)
    page = next(alert for alert in fleet.alerts() if alert.severity is Severity.PAGE)
    # Of 30 + x minutes that there are, half of the requests of x are 6 % after 4 minutes, for sure after some more.
    assert page.fired_at is not None and 240 <= (page.fired_at - began).total_seconds() <= 540
    assert abs((page.started_at - began).total_seconds()) <= 60
    assert page.labels == {"kind": "burn_rate", "pool": "main", "metric": "ttft", "q": "0.99"}
    assert page.evidence["burns"][1]["slow"] > 0 and "times too fast over 6 h" in page.summary
    fleet.serve(series, 2100, wrong=False)  # The short window of that pair is half an hour.
    assert {alert.severity: alert.state for alert in fleet.alerts()}[Severity.PAGE] is AlertState.RESOLVED


@pytest.mark.slow
def test_a_slow_leak_waits_for_the_morning(fleet: MadeFleet) -> None:
    series = burning(2, 60)
    fleet.serve(series, 1800, wrong=False)
    fleet.serve(series, 1800, wrong=True)
    assert severities(fleet) == [Severity.TICKET]


@pytest.mark.slow
def test_one_slow_request_of_a_quiet_pool_says_nothing(fleet: MadeFleet) -> None:
    fleet.serve(burning(1, 2), 30, wrong=True)
    fleet.serve(burning(1, 2), 1800, wrong=False)
    assert fleet.alerts() == []


@pytest.mark.slow
def test_tried_over_the_past_it_fires_as_it_did_live(fleet: MadeFleet) -> None:
    series = burning(20, 40)
    fleet.serve(series, 600, wrong=False)
    fleet.serve(series, 900, wrong=True)
    fleet.serve(series, 900, wrong=False)
    live = next(alert for alert in fleet.alerts() if alert.severity is Severity.PAGE)
    wanted = AlertRuleCreate(name="r", condition=CONDITION, severity=Severity.PAGE)
    past = past_of(DryRunCreate(rule=wanted, window_s=7200), fleet.now, LEVELS_S)
    (one,) = dry_run(fleet.database, fleet.store, wanted, past).times
    assert one.started_at == live.started_at and live.summary.startswith(one.summary)


def test_windows_scale_with_the_period() -> None:
    assert Pair(14.4, 3600, 300).scaled(7 * 86400.0) == Pair(14.4, 840, 60)
    assert Pair(6.0, 21600, 1800).scaled(60 * 86400.0) == Pair(6.0, 43200, 3600)
