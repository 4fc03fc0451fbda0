"""The life of an alert under any sequence of readings."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controlplane.alerts.conditions.finding import Patience, Reading
from controlplane.alerts.lives.machine import Event, Life, advance
from controlplane.contract.bodies.alerts import AlertState

START = datetime(2030, 1, 1, tzinfo=UTC)
READINGS = st.lists(st.tuples(st.sampled_from(list(Reading)), st.integers(1, 400)), max_size=60)


@settings(max_examples=300, deadline=None)
@given(READINGS, st.integers(0, 60), st.integers(0, 60))
def test_fired_before_resolved_and_each_once(readings: list[tuple[Reading, int]], for_s: int, resolve_s: int) -> None:
    patience, life, at = Patience(for_s, resolve_s), Life(), START
    told: list[Event] = []
    breach_began: datetime | None = None
    for reading, gap in readings:
        at += timedelta(seconds=gap)
        if reading is Reading.BREACH:
            breach_began = breach_began or at
        life, event = advance(life, reading, at, patience)
        if event is Event.FIRED:
            assert reading is Reading.BREACH and breach_began is not None
            assert (at - breach_began).total_seconds() >= for_s
        if event is not None:
            told.append(event)
        if life.state is None:
            assert life == Life()
        if life.state is AlertState.RESOLVED:
            assert told in (
                [Event.OPENED, Event.DROPPED],
                [Event.FIRED, Event.RESOLVED],
                [Event.OPENED, Event.FIRED, Event.RESOLVED],
            )
            with pytest.raises(ValueError, match="does not come back"):
                advance(life, Reading.BREACH, at, patience)
            life, told, breach_began = Life(), [], None
        elif life.state is None:
            breach_began = None


def test_a_known_onset_counts_towards_the_wait() -> None:
    life, event = advance(Life(), Reading.BREACH, START, Patience(60), since=START - timedelta(seconds=90))
    assert event is Event.FIRED and life.breach_since == START - timedelta(seconds=90)


def test_a_clear_reading_between_breaches_starts_the_resolve_wait_again() -> None:
    patience = Patience(0, 15)
    life, _ = advance(Life(), Reading.BREACH, START, patience)
    for second, reading in ((5, Reading.CLEAR), (10, Reading.BREACH), (15, Reading.CLEAR), (25, Reading.CLEAR)):
        life, event = advance(life, reading, START + timedelta(seconds=second), patience)
        assert event is None and life.state is AlertState.FIRING
    life, event = advance(life, Reading.CLEAR, START + timedelta(seconds=30), patience)
    assert event is Event.RESOLVED
