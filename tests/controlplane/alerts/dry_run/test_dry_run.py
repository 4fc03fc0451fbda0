"""A rule tried over the past says what the evaluator said when that past was the present."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import count

import pytest

from controlplane.alerts.dry_run.dry_run import Past, dry_run, past_of
from controlplane.contract.bodies.alerts import (
    AbsoluteCondition,
    AlertRuleCreate,
    AlertState,
    Condition,
    DryRun,
    DryRunCreate,
    SymptomCondition,
)
from controlplane.contract.bodies.slo import Limit
from controlplane.contract.errors import BadRequest
from controlplane.contract.retention_defaults import LEVELS_S
from controlplane.db import Database
from tests.controlplane.alerts.symptoms.made_fleet import START, MadeFleet
from tests.controlplane.alerts.symptoms.series import SERIES, Series, values


@pytest.fixture
def fleet(database: Database) -> Iterator[MadeFleet]:
    made = MadeFleet(database)
    yield made
    made.store.close()


def tried(fleet: MadeFleet, condition: Condition, **kwargs: float) -> DryRun:
    wanted = AlertRuleCreate(name="r", condition=condition)
    past = past_of(DryRunCreate(rule=wanted, window_s=3600), fleet.now, LEVELS_S)
    return dry_run(fleet.database, fleet.store, wanted, past, **kwargs)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["kv_near_full", "errors", "node_silent", "preemptions"])
def test_a_symptom_fires_and_ends_as_it_did_live(fleet: MadeFleet, name: str) -> None:
    series = SERIES[name]
    fleet.watch(name, series)
    fleet.serve(series, series.calm_s, wrong=False)
    fleet.serve(series, series.lasts_s, wrong=True, until=AlertState.FIRING)
    fleet.serve(series, 2 * series.lasts_s, wrong=False, until=AlertState.RESOLVED)
    (live,) = fleet.alerts()
    assert live.fired_at is not None and live.resolved_at is not None
    found = tried(fleet, SymptomCondition(symptom=name))
    (one,) = found.times
    assert (one.labels, one.started_at) == (live.labels, live.started_at)
    # Live the clock is at most a tick (30 s) and the lag of two windows ahead of the data.
    assert 0 <= (live.fired_at - one.fired_at).total_seconds() <= 40
    assert one.resolved_at is not None and 0 <= (live.resolved_at - one.resolved_at).total_seconds() <= 40
    assert found.fired == 1 and found.pools == ["main"] and found.firing_s == one.lasted_s


@pytest.mark.slow
def test_a_limit_is_tried_too_and_a_lower_one_fires_more(fleet: MadeFleet) -> None:
    series = Series(values("a", "ttft", 0.1, 40), values("a", "ttft", 0.5, 40), (0, 0))
    for _ in range(2):
        fleet.serve(series, 180, wrong=False)
        fleet.serve(series, 120, wrong=True)
    fleet.serve(series, 180, wrong=False)

    def limited(limit_s: float) -> int:
        return tried(fleet, AbsoluteCondition(limits=[Limit(metric="ttft", q=0.9, limit_s=limit_s)])).fired

    assert (limited(0.3), limited(0.03), limited(30.0)) == (2, 1, 0)


@pytest.fixture(scope="module")
def twice_slow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MadeFleet]:
    """A past in which all was slow twice; to be read only."""
    database = Database(f"sqlite:///{tmp_path_factory.mktemp('twice-slow')}/tailwright.db")
    made = MadeFleet(database)
    series = Series(values("a", "ttft", 0.1, 40), values("a", "ttft", 0.5, 40), (0, 0), step_s=60.0)
    for _ in range(2):
        made.serve(series, 1200, wrong=False)
        made.serve(series, 1200, wrong=True)
    made.serve(series, 1500, wrong=False)
    yield made
    made.store.close()
    database.close()


@pytest.mark.slow
@pytest.mark.parametrize(("window_s", "for_s"), [(60.0, 15.0), (45.0, 30.0), (600.0, 120.0)])
def test_of_wider_windows_only_what_changes_is_judged_and_fires_as_often(
    twice_slow: MadeFleet, window_s: float, for_s: float
) -> None:
    fleet = twice_slow
    limits = [Limit(metric="ttft", q=0.9, limit_s=0.3)]
    condition = AbsoluteCondition(limits=limits, window_s=window_s, for_s=for_s)
    wanted = AlertRuleCreate(name="r", condition=condition)
    fine, wide = (
        dry_run(fleet.database, fleet.store, wanted, Past(START, fleet.now - timedelta(seconds=60), width_s))
        for width_s in (5.0, 60.0)
    )
    assert fine.fired > 0 and [one.labels for one in wide.times] == [one.labels for one in fine.times]
    for one, other in zip(wide.times, fine.times, strict=True):
        assert abs((one.fired_at - other.fired_at).total_seconds()) <= 60
        assert one.resolved_at is not None and other.resolved_at is not None
        assert abs((one.resolved_at - other.resolved_at).total_seconds()) <= 60


def test_what_there_was_no_time_for_is_said(fleet: MadeFleet) -> None:
    fleet.serve(SERIES["errors"], 60, wrong=False)
    ticks = count(0.0, 10.0)
    found = tried(fleet, SymptomCondition(symptom="errors"), budget_s=15.0, elapsed_s=lambda: next(ticks))  # type: ignore[arg-type]
    assert found.judged_to <= found.end and any("used up" in note for note in found.notes) == (
        found.judged_to < found.end
    )


@pytest.mark.slow
def test_how_often_a_week_is_reckoned_from_where_traffic_begins(twice_slow: MadeFleet) -> None:
    fleet, limits = twice_slow, [Limit(metric="ttft", q=0.9, limit_s=0.3)]
    wanted = AlertRuleCreate(name="r", condition=AbsoluteCondition(limits=limits))

    def tried_from(start: datetime) -> DryRun:
        return dry_run(fleet.database, fleet.store, wanted, Past(start, fleet.now - timedelta(seconds=60), 60.0))

    whole, empty_before = tried_from(START), tried_from(START - timedelta(days=6))
    assert whole.fired == empty_before.fired == 2
    assert empty_before.a_week == pytest.approx(whole.a_week, rel=0.1) and whole.a_week > 100
    assert START - timedelta(minutes=10) < empty_before.start <= START and whole.start == START
    said = "no traffic before 2030-01-01 1"
    assert any(said in note for note in empty_before.notes) and not any("no traffic" in note for note in whole.notes)


@pytest.mark.slow
def test_no_time_goes_to_what_is_empty(twice_slow: MadeFleet) -> None:
    fleet, limits = twice_slow, [Limit(metric="ttft", q=0.9, limit_s=0.3)]
    wanted = AlertRuleCreate(name="r", condition=AbsoluteCondition(limits=limits))
    past, ticks = Past(START - timedelta(days=6), fleet.now - timedelta(seconds=60), 60.0), count(0.0, 1.0)
    found = dry_run(fleet.database, fleet.store, wanted, past, budget_s=500.0, elapsed_s=lambda: next(ticks))
    assert found.fired == 2 and found.judged_to == found.end and not any("used up" in note for note in found.notes)


def test_the_past_is_of_the_finest_windows_that_are_kept_of_all_of_it() -> None:
    wanted = AlertRuleCreate(name="r", condition=SymptomCondition(symptom="errors"))

    def width(window_s: float) -> float:
        return past_of(DryRunCreate(rule=wanted, window_s=window_s), START, LEVELS_S).width_s

    assert (width(3600), width(86400), width(7 * 86400), width(20 * 86400)) == (5, 10, 60, 300)
    past = past_of(DryRunCreate(rule=wanted, window_s=7 * 86400), START + timedelta(seconds=37), LEVELS_S)
    assert past == Past(START - timedelta(days=7), START, 60.0)


def test_a_rule_that_is_none_is_refused_as_when_it_is_made(fleet: MadeFleet) -> None:
    with pytest.raises(BadRequest, match="did you mean 'errors'"):
        tried(fleet, SymptomCondition(symptom="error"))
