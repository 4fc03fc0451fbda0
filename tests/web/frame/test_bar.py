"""What the bar offers: the fleet's pools, nodes and revisions, comparisons, and twice the span."""

from datetime import UTC, datetime, timedelta
from urllib.parse import parse_qsl

from hypothesis import given
from hypothesis import strategies as st

from controlplane.contract.bodies.nodes import EffectiveConfig, NodeView
from controlplane.contract.knobs import EngineConfig
from tests.web.columns_of import columns_of
from web.frame.bar import MOST_OFFERED, bar_for
from web.frame.selection import Selection, selection_of
from web.frame.time_range import FIRST, LONGEST

NOW = datetime(2026, 3, 1, 12, 5, tzinfo=UTC)


def node(name: str, pool: str, role: str = "serving", runs: int = 0, wants: int | None = None) -> NodeView:
    effective = EffectiveConfig(revision=runs, knobs=EngineConfig().knobs()) if runs else None
    about = {"backend": "embedded", "model": "m", "connected": True, "healthy": True}
    return NodeView.model_validate(
        {"node": name, "pool": pool, "role": role, "desired_revision": wants, "effective": effective, **about}
    )


FLEET = columns_of(
    [node("b", "code", runs=2, wants=5), node("a", "chat", runs=2), node("s", "spare", role="trial", runs=9)]
)


def selected(**params: str) -> Selection:
    return selection_of(params, NOW)


def test_it_offers_what_serves() -> None:
    bar = bar_for(FLEET, selected())
    assert (bar.pool, bar.pools, bar.nodes, bar.revisions) == ("chat", ["chat", "code"], ["a"], [2, 5])
    assert {"earlier:1d": "1d earlier", "revision:5": "revision 5"}.items() <= bar.comparisons.items()
    assert bar_for(FLEET, selected(pool="code")).nodes == ["b"]


def test_a_pool_whose_nodes_are_gone_is_still_the_one_that_was_asked_for() -> None:
    bar = bar_for(FLEET, selected(pool="gone"))
    assert (bar.pool, bar.pools, bar.nodes) == ("gone", ["chat", "code", "gone"], [])


def test_an_empty_fleet_has_a_bar() -> None:
    bar = bar_for(columns_of([]), selected())
    assert (bar.pool, bar.pools, bar.nodes, bar.revisions) == ("", [], [], [])


def test_what_the_address_says_is_offered_whatever_else_is() -> None:
    bar = bar_for(FLEET, selected(**{"from": "now-3h", "compare": "node:x"}))
    assert next(iter(bar.ranges)) == "now-3h" and bar.comparisons["node:x"] == "node x"
    past = bar_for(FLEET, selected(**{"from": "now-1h", "to": "now-30m"}))
    assert past.ranges["now-1h"] == "now-1h to now-30m"


def test_names_of_a_large_fleet_are_typed() -> None:
    fleet = [node(f"n{number}", "chat") for number in range(MOST_OFFERED + 1)]
    assert (
        bar_for(columns_of(fleet), selected()).nodes == []
        and len(bar_for(columns_of(fleet[1:]), selected()).nodes) == MOST_OFFERED
    )


MOMENTS = st.datetimes(datetime(1970, 1, 2), datetime(2100, 1, 1), timezones=st.just(UTC))


@given(MOMENTS, st.timedeltas(timedelta(seconds=1), LONGEST))
def test_zooming_out_is_a_link_to_a_wider_range_that_holds_this_one(start: datetime, length: timedelta) -> None:
    before = selected(**{"from": start.isoformat(), "to": (start + length).isoformat(), "pool": "chat"})
    after = selection_of(dict(parse_qsl(bar_for(columns_of([]), before).zoomed_out[1:])), NOW)
    was, now_is = before.range.at(NOW), after.range.at(NOW)
    assert now_is[0] <= was[0] and after.pool == "chat"
    # Whole seconds: the wider one may end up to a second before.
    assert now_is[1] > was[1] - timedelta(seconds=1)
    assert abs(after.range.length(NOW) - min(2 * length, LONGEST)) <= timedelta(seconds=1) or now_is[0] == FIRST
