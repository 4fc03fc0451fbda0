"""The configurations' page: what runs where, what became of a revision, and what tells two apart."""

from datetime import UTC, datetime
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from controlplane.contract.bodies.configs import Revision
from controlplane.contract.bodies.nodes import ChangeCost, EffectiveConfig, FleetColumns, NodeView
from controlplane.contract.bodies.rollouts import Rollout, RolloutCreate, RolloutPhase
from controlplane.contract.errors import BadRequest
from controlplane.contract.knobs import ChangeClass, EngineConfig
from controlplane.contract.reports.declared_knobs import between
from tests.web.columns_of import columns_of
from tests.web.part_html import part_html
from web.fleet import configs_page
from web.fleet.config_rows import Use, changes_of, config_rows, used, uses_of
from web.frame.selection import selection_of

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


def revision(number: int, **knobs: Any) -> Revision:
    return Revision(number=number, hash=str(number), knobs=EngineConfig(**knobs), created_by="ann", created_at=NOW)


def node(name: str, runs: int, wants: int, pool: str = "chat", role: str = "serving") -> NodeView:
    costs = {ChangeClass.RESTART: ChangeCost(count=1, last_s=80, mean_s=71.5)}
    effective = EffectiveConfig(revision=runs, knobs=EngineConfig().knobs(), costs=costs)
    told = {"node": name, "pool": pool, "role": role, "backend": "vllm", "connected": True, "healthy": True}
    return NodeView.model_validate({**told, "effective": effective, "desired_revision": wants})


REVISIONS = [revision(1), revision(2, max_num_seqs=8), revision(3, max_num_seqs=8, quantization="int8"), revision(4)]
NODES = [node("a", 0, 1), node("b", 1, 3), node("c", 3, 3), node("d", 2, 2, "spare", "trial")]
ROLLOUT = Rollout(
    id=7,
    phase=RolloutPhase.ROLLED_BACK,
    spec=RolloutCreate(pool="chat", revision=3),
    created_by="ann",
    created_at=NOW,
)


class Served:
    """A service with these revisions, nodes and the rollout."""

    def configs(self) -> list[Revision]:
        return REVISIONS

    def config(self, number: int) -> Revision:
        return REVISIONS[number - 1]

    def fleet(self) -> FleetColumns:
        return columns_of(NODES)

    def node(self, name: str) -> NodeView:
        return next(one for one in NODES if one.node == name)

    def rollouts(self) -> list[Rollout]:
        return [ROLLOUT]


def test_what_runs_where_counts_what_was_adopted() -> None:
    assert uses_of(columns_of(NODES)) == {
        1: [Use("chat", "serving", 2, 1)],
        2: [Use("spare", "trial", 1, 1)],
        3: [Use("chat", "serving", 1, 2)],
    }


def test_revisions_newest_first_of_one_pool_or_all_and_which_are_used() -> None:
    rows = config_rows(REVISIONS, columns_of(NODES), [ROLLOUT], None)
    assert [(row.revision.number, used(row)) for row in rows] == [(4, False), (3, True), (2, False), (1, True)]
    assert rows[1].changed == {"quantization": ("none", "int8")}
    of_pool = config_rows(REVISIONS, columns_of(NODES), [ROLLOUT], "spare")
    assert [row.revision.number for row in of_pool] == [2]


def test_a_revision_that_served_before_a_rollout_is_not_called_only_tried() -> None:
    came = ROLLOUT.model_copy(update={"previous_revision": 2})
    rows = config_rows(REVISIONS, columns_of([node("a", 3, 3)]), [came], "chat")
    assert [(row.revision.number, used(row)) for row in rows] == [(3, True), (2, True)]


def test_the_pickers_offer_what_the_newest_changed() -> None:
    client: Any = Served()
    assert configs_page.about(client, selection_of({}, NOW))["chosen"] == {"a": 3, "b": 4}
    assert configs_page.about(client, selection_of({"a": "1", "b": "3"}, NOW))["chosen"] == {"a": 1, "b": 3}


def test_what_differs_is_told_with_what_the_change_takes() -> None:
    assert between({"max_num_seqs": 1}, {"max_num_seqs": 1}) == {}
    seqs, weights = changes_of(REVISIONS[0], REVISIONS[2], NODES[:1])
    assert (seqs.knob.name, seqs.old, seqs.new, seqs.ways[0].change_class) == ("max_num_seqs", 32, 8, "live")
    assert (weights.ways[0].change_class, weights.ways[0].cost_s, seqs.ways[0].cost_s) == ("restart", 71.5, None)


def test_the_comparison_says_how_to_roll_it_out() -> None:
    shown = " ".join(part_html(configs_page.PAGE, "config_changes", Served(), a="1", b="3").split())
    for wanted in ("2 of 5 knobs differ", "restart in chat: 71.5 s on a", "rollout start --pool chat --revision 3"):
        assert wanted in shown, wanted
    assert "They are equal" in part_html(configs_page.PAGE, "config_changes", Served(), a="1", b="4")


def test_the_list_folds_what_was_only_tried() -> None:
    shown = " ".join(part_html(configs_page.PAGE, "configs", Served()).split())
    assert "2 more were only tried" in shown and 'data-revision="2"' not in shown
    assert "</svg>rolled back" in shown and "1 of 2 wanted" in shown
    assert 'data-revision="2"' in part_html(configs_page.PAGE, "configs", Served(), show="all")


@pytest.mark.parametrize("name", ["a", "b"])
def test_a_wrong_number_is_refused_by_its_name(name: str) -> None:
    with pytest.raises(BadRequest) as refused:
        part_html(configs_page.PAGE, "config_changes", Served(), **{"a": "1", "b": "1", name: "x"})
    assert refused.value.detail["field"] == name


@pytest.mark.browser
def test_configurations_are_listed(page: Page, stack: Any) -> None:
    with stack.client() as client:
        serving = next(one.desired_revision for one in client.nodes() if one.pool == "demo")
    page.goto("/configs")
    expect(page.locator(f'[data-revision="{serving}"]')).to_contain_text("demo")
    page.goto(f"/configs?a={serving}&b={serving}")
    expect(page.locator("#part-config_changes")).to_contain_text("They are equal")
