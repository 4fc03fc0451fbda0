"""When an open alert is told of again: growth beyond noise, a wider reach, another cause; each once, none lost."""

from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.alerts.lives.updates import (
    Seen,
    Told,
    another_cause,
    grown_to,
    kinds,
    reach_of_nodes,
    told_again,
    words,
)
from controlplane.contract.bodies.alerts import UpdateKind

NOW = datetime(2030, 1, 1, tzinfo=UTC)
WORDS = st.frozensets(st.sampled_from(["node a", "node b", "stage queue", "prompts of <=2k tokens"]))
SEEN = st.builds(Seen, st.none() | st.floats(0.01, 100.0), WORDS, st.sampled_from(["", "load", "one_node:b"]))


def test_growth_must_be_large_and_more_than_noise(sketch: Any) -> None:
    random = np.random.default_rng(4)
    same = sketch(random.lognormal(0.0, 0.5, 300))
    told_s = same.quantile(0.95)
    assert grown_to(told_s, same, 0.95) is None
    assert grown_to(told_s, sketch(random.lognormal(0.0, 0.5, 100)), 0.95) is None
    assert grown_to(told_s, sketch(1.3 * random.lognormal(0.0, 0.5, 300)), 0.95) is None  # Not by enough.
    assert grown_to(told_s, sketch([0.5] * 20 + [9.0] * 2), 0.95) is None  # Two requests are no growth.
    assert grown_to(told_s, sketch([50.0] * 10), 0.95) is None  # Nor are ten.
    assert grown_to(told_s, sketch(4.0 * random.lognormal(0.0, 0.5, 60)), 0.95) == pytest.approx(4 * told_s, rel=0.4)
    assert grown_to(None, same, 0.95) is None


def test_noise_is_never_growth(sketch: Any) -> None:
    """30 s of what was told, again and again: 96 requests each, independent of each other."""
    random = np.random.default_rng(6)
    for _ in range(2000):
        recent = sketch(random.lognormal(0.0, 0.5, 96))
        assert grown_to(float(np.exp(0.5 * 1.645)), recent, 0.95) is None


@given(st.lists(SEEN, max_size=6), SEEN)
def test_what_was_seen_stays_seen_until_it_is_told(before: list[Seen], now: Seen) -> None:
    told = Told(NOW, 1.0, frozenset({"node a"}), "load")
    gathered = Seen()
    for one in (*before, now):
        gathered = gathered.and_then(one)
    for one in (*before, now):
        assert one.reach <= gathered.reach and (one.value_s or 0.0) <= (gathered.value_s or 0.0)
        assert set(kinds(told, one)) - {UpdateKind.CAUSE} <= set(kinds(told, gathered))
    after = told_again(told, gathered, NOW + timedelta(seconds=60))
    # The same again is no news.
    assert kinds(after, Seen(None, gathered.reach, gathered.cause)) == []
    assert Told.load(after.dump()) == after and Seen.load(gathered.dump()) == gathered


def test_another_cause_must_be_clearly_likelier() -> None:
    load, noise = {"cause": "load", "score": 0.6}, {"cause": "one_node", "score": 0.65, "node": "b"}
    assert another_cause("load", [noise, load]) == ""
    assert another_cause("load", [{**noise, "score": 0.75}, load]) == "one_node:b"
    assert another_cause("load", [noise]) == "one_node:b"
    assert another_cause("one_node:b", [noise, load]) == ""
    assert another_cause("load", [{"cause": "unknown", "score": 0.0}]) == ""
    assert another_cause("unknown", [load]) == "load"
    assert another_cause("load", []) == ""


def test_nodes_that_are_reached(sketch: Any) -> None:
    nodes = {"a": sketch([0.1] * 50), "b": sketch([0.1] * 25 + [2.0] * 25), "": sketch([2.0] * 50)}
    assert reach_of_nodes(nodes, 0.5, 0.95, 1e-4) == {"node b"}
    assert reach_of_nodes(nodes, None, 0.95, 1e-4) == frozenset()
    few = {"c": sketch([2.0, 2.0])}
    assert reach_of_nodes(few, 0.5, 0.95, 1e-4) == frozenset() and reach_of_nodes(few, 0.5, 0.95, 0.05) == {"node c"}


def test_the_news_in_words() -> None:
    told = Told(NOW, 0.39, frozenset({"node a"}), "load")
    seen = Seen(4.7, frozenset({"node a", "node b"}), "config_change:4")
    assert kinds(told, seen) == [UpdateKind.GREW, UpdateKind.SPREAD, UpdateKind.CAUSE]
    assert words(told, seen, "ttft", 0.99, "revision 4") == (
        "TTFT p99 grew from 390 ms to 4.70 s; it reached node b; the likeliest cause is now: revision 4"
    )
