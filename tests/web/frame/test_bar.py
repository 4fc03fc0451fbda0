"""What the bar offers: the fleet's pools, nodes and revisions, comparisons, and twice the span."""

from datetime import UTC, datetime, timedelta
from urllib.parse import parse_qsl

from hypothesis import given
from hypothesis import strategies as st

from controlplane.contract.bodies.nodes import FleetOutline
from web.frame.bar import bar_for
from web.frame.selection import Selection, selection_of
from web.frame.time_range import FIRST, LONGEST

NOW = datetime(2026, 3, 1, 12, 5, tzinfo=UTC)


FLEET = FleetOutline(pool="chat", pools=["chat", "code"], nodes=["a"], revisions=[2, 5])
EMPTY = FleetOutline(pool="", pools=[], nodes=[], revisions=[])


def selected(**params: str) -> Selection:
    return selection_of(params, NOW)


def test_it_offers_what_serves() -> None:
    bar = bar_for(FLEET, selected())
    assert (bar.pool, bar.pools, bar.nodes, bar.revisions) == ("chat", ["chat", "code"], ["a"], [2, 5])
    assert {"earlier:1d": "1d earlier", "revision:5": "revision 5"}.items() <= bar.comparisons.items()


def test_a_pool_whose_nodes_are_gone_is_still_the_one_that_was_asked_for() -> None:
    bar = bar_for(FLEET.model_copy(update={"pool": "gone", "nodes": []}), selected(pool="gone"))
    assert (bar.pool, bar.pools, bar.nodes) == ("gone", ["chat", "code", "gone"], [])


def test_an_empty_fleet_has_a_bar() -> None:
    bar = bar_for(EMPTY, selected())
    assert (bar.pool, bar.pools, bar.nodes, bar.revisions) == ("", [], [], [])


def test_what_the_address_says_is_offered_whatever_else_is() -> None:
    bar = bar_for(FLEET, selected(**{"from": "now-3h", "compare": "node:x"}))
    assert next(iter(bar.ranges)) == "now-3h" and bar.comparisons["node:x"] == "node x"
    past = bar_for(FLEET, selected(**{"from": "now-1h", "to": "now-30m"}))
    assert past.ranges["now-1h"] == "now-1h to now-30m"


MOMENTS = st.datetimes(datetime(1970, 1, 2), datetime(2100, 1, 1), timezones=st.just(UTC))


@given(MOMENTS, st.timedeltas(timedelta(seconds=1), LONGEST))
def test_zooming_out_is_a_link_to_a_wider_range_that_holds_this_one(start: datetime, length: timedelta) -> None:
    before = selected(**{"from": start.isoformat(), "to": (start + length).isoformat(), "pool": "chat"})
    after = selection_of(dict(parse_qsl(bar_for(EMPTY, before).zoomed_out[1:])), NOW)
    was, now_is = before.range.at(NOW), after.range.at(NOW)
    assert now_is[0] <= was[0] and after.pool == "chat"
    # Whole seconds: the wider one may end up to a second before.
    assert now_is[1] > was[1] - timedelta(seconds=1)
    assert abs(after.range.length(NOW) - min(2 * length, LONGEST)) <= timedelta(seconds=1) or now_is[0] == FIRST
