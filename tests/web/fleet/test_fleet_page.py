"""The fleet's page: what is filtered, how it is sorted, what a row and a cell say."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from playwright.sync_api import Page, expect

from controlplane.contract.bodies.nodes import EffectiveConfig, FleetColumns, NodeView
from controlplane.contract.bodies.telemetry import NodeFigures
from controlplane.contract.errors import BadRequest
from controlplane.contract.knobs import EngineConfig
from tests.web.columns_of import columns_of
from tests.web.part_html import NOW, part_html
from web.fleet import fleet_page
from web.fleet.fleet_rows import COLUMNS, Fleet, counted, filtered, fleet_of, in_state, ordered, wanted_of
from web.frame.selection import selection_of


def node(name: str, pool: str = "chat", **more: Any) -> NodeView:
    effective = EffectiveConfig(revision=2, knobs=EngineConfig().knobs())
    told = {"node": name, "pool": pool, "role": "serving", "backend": "vllm", "connected": True, "healthy": True}
    return NodeView.model_validate({**told, "effective": effective, "desired_revision": 2, "last_seen": NOW, **more})


NODES = [
    node("gpu-1"),
    node("gpu-2", healthy=False),
    node("gpu-3", "code", connected=False, last_seen=NOW - timedelta(hours=3)),
    node("gpu-4", "code", drift=True, drift_since=NOW - timedelta(minutes=7), desired_revision=5),
    node("spare", "trial", role="trial", health_detail="no plugin", config_status="failed"),
]


def figures(**by_name: dict[str, float]) -> NodeFigures:
    """`by_name`: figures by node, of the nodes that told anything."""
    names = sorted(by_name)
    columns = {
        name: [by_name[node].get(name) for node in names]
        for name in ("ttft_p99", "kv_usage", "running", "waiting", "host_pressure")
    }
    now = datetime(2026, 3, 1, tzinfo=UTC)
    region, requests = ["west" for _ in names], [9 for _ in names]
    return NodeFigures.model_validate(
        {"start": now, "end": now, "node": names, "region": region, "requests": requests, **columns}
    )


FIGURES = figures(**{"gpu-1": {"ttft_p99": 0.4, "kv_usage": 0.5}, "gpu-2": {"ttft_p99": 1.2}, "gone": {"ttft_p99": 9}})
FLEET = fleet_of(columns_of(NODES), FIGURES)


class Served:
    """A service with these nodes."""

    def fleet(self) -> FleetColumns:
        return columns_of(NODES)

    def node_figures(self, **_: Any) -> NodeFigures:
        return FIGURES


def named(places: list[int], fleet: Fleet = FLEET) -> list[str]:
    return [fleet.told.node[at] for at in places]


def test_what_a_node_measured_stands_beside_what_it_is() -> None:
    assert FLEET.told.node == ["gpu-1", "gpu-2", "gpu-3", "gpu-4", "spare"]
    assert FLEET.measured["ttft_p99"] == [0.4, 1.2, None, None, None]
    assert FLEET.region == ["west", "west", "", "", ""]


def test_the_bars_filters_and_the_search_let_nodes_in() -> None:
    assert named(filtered(FLEET, selection_of({"pool": "code"}, NOW))) == ["gpu-3", "gpu-4"]
    assert named(filtered(FLEET, selection_of({"node": "gpu-2"}, NOW))) == ["gpu-2"]
    assert named(filtered(FLEET, selection_of({"revision": "5"}, NOW))) == ["gpu-4"]
    assert named(filtered(FLEET, selection_of({}, NOW), "CODE")) == ["gpu-3", "gpu-4"]


def test_each_state_lets_in_as_many_as_are_counted() -> None:
    places = list(range(len(FLEET)))
    counts = counted(FLEET, places)
    assert counts == {
        "healthy": 2,
        "unhealthy": 1,
        "offline": 1,
        "degraded": 1,
        "differs": 1,
        "config_failed": 1,
        "trial": 1,
    }
    for state, count in counts.items():
        assert len(in_state(FLEET, places, state)) == count, state
    assert in_state(FLEET, places, "") == places


@given(st.lists(st.one_of(st.none(), st.floats(0, 9)), max_size=20), st.booleans())
def test_what_told_nothing_comes_last_whichever_way(values: list[float | None], descending: bool) -> None:
    nodes = [node(f"n{at:02}") for at in range(len(values))]
    told = {f"n{at:02}": {"waiting": value} for at, value in enumerate(values) if value is not None}
    fleet = fleet_of(columns_of(nodes), figures(**told))
    found = [values[at] for at in ordered(fleet, range(len(values)), "waiting", descending)]
    known = sorted((value for value in values if value is not None), reverse=descending)
    assert found == [*known, *[None] * (len(values) - len(known))]


@pytest.mark.parametrize("sort", COLUMNS)
def test_every_column_sorts_every_node(sort: str) -> None:
    assert sorted(ordered(FLEET, range(len(FLEET)), sort, True)) == list(range(len(FLEET)))


def test_a_selector_chooses_cells_and_rows_alike() -> None:
    labelled = [node("a", labels={"region": "eu-1"}), node("b", labels={"region": "us-2", "gpu": "H100"}), node("c")]

    class Labelled(Served):
        def fleet(self) -> FleetColumns:
            return columns_of(labelled)

    shown = part_html(fleet_page.PAGE, "fleet", Labelled(), selector="region, !gpu")
    assert 'id="node-a"' in shown and 'id="node-b"' not in shown and 'id="node-c"' not in shown
    assert 'href="?selector=%21gpu%2C+region%3Deu-1">region=eu-1</a>' in shown, "a label adds itself to the selector"
    cells = part_html(fleet_page.PAGE, "fleet_cells", Labelled(), by="label:gpu")
    assert (
        "gpu H100" in cells and "no label gpu" in cells and '<a href="?by=label%3Agpu" aria-current="true">gpu' in cells
    )
    assert "1 node:" in part_html(fleet_page.PAGE, "fleet_cells", Labelled(), selector="gpu in (H100, H200)")
    wrong = part_html(fleet_page.PAGE, "fleet", Labelled(), selector="region=")
    assert "cannot be read" in wrong and "node-" not in wrong
    assert "No nodes." in part_html(fleet_page.PAGE, "fleet_cells", Labelled(), selector="region=")


@pytest.mark.parametrize("by", ["odd", "label:", "label:a b", "label:node"])
def test_what_cells_cannot_be_grouped_by_is_refused(by: str) -> None:
    with pytest.raises(BadRequest) as refused:
        fleet_page.own(selection_of({"by": by}, NOW))
    assert refused.value.detail["field"] == "by"


@pytest.mark.parametrize(("name", "value"), [("state", "odd"), ("sort", "-x"), ("page", "0"), ("page", "x")])
def test_a_wrong_parameter_is_refused_by_its_name(name: str, value: str) -> None:
    with pytest.raises(BadRequest) as refused:
        wanted_of(selection_of({name: value}, NOW))
    assert refused.value.detail["field"] == name
    with pytest.raises(BadRequest):
        part_html(fleet_page.PAGE, "fleet_cells", Served(), figure="odd")


def test_the_table_shows_the_worst_first_and_what_is_the_matter() -> None:
    shown = " ".join(part_html(fleet_page.PAGE, "fleet", Served()).split())
    assert shown.index("gpu-3") < shown.index("gpu-2") < shown.index("spare") < shown.index("gpu-1")
    for wanted in (
        "</svg>offline",
        "</svg>for 7 min",
        "wanted 5",
        "config failed",
        ">trial</span>",
        "50 %",
        "400 ms",
    ):
        assert wanted in shown, wanted
    assert 'aria-sort="ascending"><a href="?sort=-state">State</a>' in shown
    assert "1 to 5 of 5" in shown and '<a href="?state=differs">differs 1</a>' in shown


def test_nothing_that_matches_leads_back() -> None:
    assert "No node matches" in part_html(fleet_page.PAGE, "fleet", Served(), q="zebra", state="offline")


def test_cells_are_grouped_and_told_as_the_reader_chose() -> None:
    assert "pool chat" in part_html(fleet_page.PAGE, "fleet_cells", Served())
    shown = part_html(fleet_page.PAGE, "fleet_cells", Served(), figure="drift", by="region")
    assert "region west" in shown and "no region told" in shown and "on gpu-4" in shown


@pytest.mark.browser
def test_the_fleet_is_seen_sorted_and_filtered(page: Page) -> None:
    page.goto("/fleet")
    expect(page.locator('[data-node="node-1"]')).to_be_visible(timeout=15_000)
    expect(page.get_by_role("figure", name="Nodes by p99 time to first token")).to_contain_text("1 node")
    page.get_by_role("link", name="TTFT p99").click()
    expect(page.locator("th[aria-sort]")).to_have_text("TTFT p99")
    page.get_by_role("searchbox", name="Labels").fill("node in (node-1), role=")
    page.get_by_role("button", name="Find", exact=True).click()
    expect(page.get_by_role("alert")).to_contain_text("Labels: at character 24: wants a value, got its end")
    expect(page.locator("#part-fleet")).to_contain_text("no node is shown")
    page.get_by_role("searchbox", name="Labels").fill("node in (node-1), role=serving")
    page.get_by_role("button", name="Find", exact=True).click()
    expect(page.locator('[data-node="node-1"]')).to_be_visible()
    page.get_by_role("searchbox", name="Name or pool").fill("nobody")
    page.get_by_role("button", name="Find", exact=True).click()
    expect(page.locator("#part-fleet")).to_contain_text("No node matches")
