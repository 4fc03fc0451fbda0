"""Arms as others name them: which nodes, which revision, since when."""

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.contract.changes.verdicts import ArmAsked, VerdictAsked
from controlplane.contract.errors import BadRequest
from controlplane.rollouts.verdicts.asked_arms import LONGEST_S, arms_of, matches, started_at
from controlplane.telemetry import Span
from tests.controlplane.telemetry.fake_reader import FakeReader

START = datetime(2025, 3, 1, 12, 0, tzinfo=UTC)
SPAN = Span(START, START + timedelta(minutes=10))


def asked(control: dict[str, Any], canary: dict[str, Any], **more: Any) -> VerdictAsked:
    return VerdictAsked(control=ArmAsked(**control), canary=ArmAsked(**canary), metrics=["ttft"], **more)


def reported(*nodes: str, at: datetime = START, **labels: str) -> FakeReader:
    telemetry = FakeReader()
    for node in nodes:
        telemetry.add("ttft", at, [0.1], **{"node": node, "pool": "chat", **labels})
    return telemetry


def test_a_node_that_both_patterns_hold_is_the_controls() -> None:
    telemetry = reported("chat-primary-1", "chat-primary-2", "chat-7d-1", "code-1")
    found = arms_of(telemetry, asked({"node": ["chat-primary-*"]}, {"node": ["chat-*"]}), SPAN)
    assert (found.control.nodes, found.canary.nodes) == (("chat-primary-1", "chat-primary-2"), ("chat-7d-1",))


def test_the_rest_of_a_pool_is_the_control() -> None:
    telemetry = reported("a", "b", "c")
    found = arms_of(telemetry, asked({"pool": ["chat"]}, {"node": ["b"]}), SPAN)
    assert (found.control.nodes, found.canary.nodes) == (("a", "c"), ("b",))


def test_the_rest_of_a_pool_is_what_serves() -> None:
    telemetry = reported("a", "b")
    telemetry.add("ttft", START, [0.1], node="bench", pool="chat", role="trial")
    assert arms_of(telemetry, asked({"pool": ["chat"]}, {"node": ["b"]}), SPAN).control.nodes == ("a",)
    named = arms_of(telemetry, asked({"pool": ["chat"]}, {"node": ["bench"]}), SPAN)
    assert named.canary.nodes == ("bench",)


def test_a_pattern_is_text_but_for_its_star() -> None:
    telemetry = reported("a.b", "axb")
    found = arms_of(telemetry, asked({"pool": ["chat"]}, {"node": ["a.*"]}), SPAN)
    assert found.canary.nodes == ("a.b",)


def test_revisions_tell_arms_on_the_same_nodes_apart() -> None:
    telemetry = reported("a", revision="1")
    telemetry.add("ttft", START, [0.1], node="a", pool="chat", revision="2")
    found = arms_of(telemetry, asked({"revision": ["1"]}, {"revision": ["2"]}), SPAN)
    assert found.shared
    assert (found.control.labels, found.canary.labels) == (frozenset({"1"}), frozenset({"2"}))


def test_other_labels_filter_what_is_read() -> None:
    found = arms_of(reported("a", "b"), asked({"node": ["a"], "pool": ["chat"]}, {"node": ["b"]}), SPAN)
    assert found.control.filters == {"pool": ("chat",), "node": ("a",)}


@pytest.mark.parametrize(
    ("control", "canary"), [({}, {}), ({"node": ["a"]}, {"node": ["a"]}), ({"pool": ["chat"]}, {})]
)
def test_arms_that_nothing_tells_apart_are_refused(control: dict[str, Any], canary: dict[str, Any]) -> None:
    with pytest.raises(BadRequest, match="apart") as raised:
        arms_of(reported("a"), asked(control, canary), SPAN)
    assert raised.value.detail["field"] == "canary"


def test_the_canary_began_after_its_last_silence() -> None:
    telemetry = reported("chat-primary-1", "chat-1")  # An earlier canary, and the control that never stops.
    for minute in range(0, 120):
        telemetry.add("ttft", START + timedelta(minutes=minute), [0.1], node="chat-primary-1")
    for minute in range(60, 70):
        telemetry.add("ttft", START + timedelta(minutes=minute), [0.1], node="chat-2")
    wanted = asked({"node": ["chat-primary-*"]}, {"node": ["chat-*"]})
    assert started_at(telemetry, wanted, START + timedelta(minutes=71)) == START + timedelta(minutes=60)
    assert started_at(telemetry, wanted, START + timedelta(minutes=100)) == START + timedelta(minutes=60)


def test_a_start_that_is_said_counts_and_silence_has_none() -> None:
    wanted = asked({"node": ["a"]}, {"node": ["b"]})
    assert started_at(FakeReader(), wanted, START) is None
    assert started_at(FakeReader(), wanted.model_copy(update={"start": START}), START) == START


def test_a_canary_without_a_pause_needs_a_start() -> None:
    telemetry = FakeReader()
    for minute in range(0, int(LONGEST_S / 60) + 20, 5):
        telemetry.add("ttft", START + timedelta(minutes=minute), [0.1], node="b")
    with pytest.raises(BadRequest, match="say when it began"):
        started_at(telemetry, asked({"node": ["a"]}, {"node": ["b"]}), START + timedelta(seconds=LONGEST_S + 900))


@given(st.text("ab*", max_size=8), st.text("ab", max_size=10))
def test_a_pattern_is_of_the_names_that_its_stars_say(pattern: str, name: str) -> None:
    said = re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), name)
    assert matches(pattern, name) == (said is not None)


def test_many_stars_are_as_quick_as_one() -> None:
    """Tried one after the other in every way they would keep the whole service for ever."""
    assert not matches("a*" * 60 + "!", "a" * 128)
    assert matches("a*" * 60 + "a", "a" * 128)
