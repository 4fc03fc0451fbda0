"""What a rollout's page says of its nodes: what they ran then is the rollout's, what they run today is not."""

from datetime import UTC, datetime, timedelta
from typing import Any, cast

from controlplane.client import Client
from controlplane.contract.bodies.access import Scope
from controlplane.contract.bodies.configs import Revision
from controlplane.contract.bodies.nodes import EffectiveConfig, FleetColumns, NodeRole, NodeView
from controlplane.contract.bodies.rollouts import Rollout, RolloutCreate, RolloutPhase
from controlplane.contract.changes.blast_radius import BlastRadius
from controlplane.contract.knobs import EngineConfig
from controlplane.contract.on_call.rollout_policies import Freeze, Pin, RolloutPolicy
from tests.web.columns_of import columns_of
from tests.web.part_html import part_html
from web.rollouts.rollout_page import PAGE, runs_now

NOW = datetime(2030, 1, 1, tzinfo=UTC)
BEFORE, WANTED, TODAY = 512, 300, 7777
"""Tokens a step: of the revision before, of the wanted one, and of what a later change gave the node."""


NODE = NodeView(
    node="gpu-1",
    pool="chat",
    role=NodeRole.SERVING,
    backend="embedded",
    model="m",
    connected=True,
    healthy=True,
    effective=EffectiveConfig(revision=9, knobs=EngineConfig(max_num_batched_tokens=TODAY).knobs()),
)


RADIUS = BlastRadius(
    nodes=8,
    nodes_at_once=2,
    traffic_share=0.5,
    traffic_share_at_once=0.2,
    tenants=3,
    unavailable_s=10.0,
    says=["8 nodes, at most 2 at once", "4 nodes by restart: <nobody has measured>"],
)


class OneRollout:
    """The calls that the page makes; its only node runs `TODAY`."""

    def __init__(self, phase: RolloutPhase, evidence: dict[str, Any]) -> None:
        ended = None if phase is RolloutPhase.JUDGING else NOW
        self.serving, self.read, self.windows = ["gpu-1"], list[str](), list[Freeze]()
        self._rollout = Rollout(
            id=1,
            phase=phase,
            spec=RolloutCreate(pool="chat", revision=2),
            previous_revision=1,
            canary_nodes=["gpu-1"],
            evidence=evidence,
            created_by="ann",
            created_at=NOW - timedelta(hours=1),
            ended_at=ended,
        )

    def put(self, values: dict[str, Any]) -> None:
        self._rollout = self._rollout.model_copy(update=values)

    def rollout(self, number: int) -> Rollout:
        return self._rollout

    def config(self, number: int) -> Revision:
        knobs = EngineConfig(max_num_batched_tokens=BEFORE if number == 1 else WANTED)
        return Revision(number=number, hash="h", knobs=knobs, created_by="t", created_at=NOW)

    def fleet(self, pool: str) -> FleetColumns:
        return columns_of([NODE.model_copy(update={"node": name}) for name in self.serving])

    def node(self, name: str) -> NodeView:
        self.read.append(name)
        return NODE.model_copy(update={"node": name})

    def blast_radius(self, number: int) -> BlastRadius:
        return RADIUS

    def rollout_policies(self) -> list[RolloutPolicy]:
        return []

    def freezes(self) -> list[Freeze]:
        return self.windows

    def pins(self) -> list[Pin]:
        return []

    def own_session(self) -> Any:
        class Me:
            scope = Scope.READ

        return Me


def parts(phase: RolloutPhase, evidence: dict[str, Any]) -> tuple[str, str]:
    """The rollout's own table, and what stands after it."""
    text = part_html(PAGE, "rollout_waves", OneRollout(phase, evidence), rollout="1")
    own, _, after = text.partition('data-table="rollout"')[2].partition("</table>")
    return own, after


def test_a_finished_rollout_does_not_show_todays_values_as_its_own() -> None:
    own, after = parts(RolloutPhase.ROLLED_BACK, {})
    assert str(BEFORE) in own and str(WANTED) in own
    assert str(TODAY) not in own and "gpu-1" not in own
    assert "What its nodes run today" in after and "what was changed since is in it" in after
    assert "gpu-1 now" in after and str(TODAY) in after


def test_what_the_nodes_ran_at_the_end_is_shown_where_the_rollout_wrote_it_down() -> None:
    at_end = {"nodes_at_end": {"gpu-1": {"revision": 1, "knobs": {"max_num_batched_tokens": 513}}, "gpu-2": None}}
    own, after = parts(RolloutPhase.ROLLED_BACK, at_end)
    assert "gpu-1 at the end" in own and ">513<" in own and str(TODAY) not in own
    # A node that told nothing at that time is no guess.
    assert own.split("gpu-2 at the end")[1].count("–") == 5
    assert str(TODAY) in after


def test_a_rollout_under_way_shows_what_its_nodes_run_now() -> None:
    own, after = parts(RolloutPhase.JUDGING, {})
    assert "gpu-1 now" in own and str(TODAY) in own
    assert "today" not in after
    # The changed knob is marked in the wanted row.
    assert f'<td class="number picked">{WANTED}</td>' in own


def test_what_is_chosen_by_labels_is_said_above_the_waves() -> None:
    service = OneRollout(RolloutPhase.JUDGING, {})
    spec = RolloutCreate(pool="chat", revision=2, canary_selector="gpu=H100", wave_by="region", wave_order=["eu-1"])
    service.put({"spec": spec})
    said = "The canary is one of gpu=H100. Waves go by region, one after another: eu-1, then any other."
    assert said in part_html(PAGE, "rollout_waves", service, rollout="1")
    service.put({"spec": spec.model_copy(update={"emergency": True})})
    assert "The canary is one of" not in part_html(PAGE, "rollout_waves", service, rollout="1")


def test_of_nodes_that_run_alike_one_is_read() -> None:
    service = OneRollout(RolloutPhase.JUDGING, {})
    service.serving = [f"gpu-{number}" for number in range(1, 6)]
    told = runs_now(cast(Client, service), service.fleet("chat"), ["gpu-2", "gpu-3", "gone"])
    assert service.read == ["gpu-2"]
    assert told["gpu-2"] == told["gpu-3"] and told["gpu-2"]["max_num_batched_tokens"] == TODAY
    assert told["gone"] == {}


def shown(scope: Scope, **more: Any) -> str:
    page = OneRollout(RolloutPhase.PROPOSED, {})
    page._rollout = page._rollout.model_copy(update={"ended_at": None, **more})
    page.own_session = lambda: type("Me", (), {"scope": scope})  # type: ignore[method-assign]
    return part_html(PAGE, "rollout", page, rollout="1")


def test_an_emergency_that_waits_for_another_admin_says_so_and_has_a_button_for_admins() -> None:
    for scope, has_button in ((Scope.ADMIN, True), (Scope.OPERATE, False), (Scope.READ, False)):
        text = shown(scope, needs_approval=True)
        assert "Waits for the approval of another admin than ann." in text
        assert ("/rollouts/1/approve" in text) is has_button
        assert "/rollouts/1/start" not in text
    told = shown(Scope.ADMIN, phase=RolloutPhase.PROMOTING, needs_approval=True, approved_by="eve", approved_at=NOW)
    assert "by eve" in told and "Waits for the approval" not in told and "/rollouts/1/approve" not in told


def test_before_it_starts_the_page_says_whom_it_can_hurt() -> None:
    proposed = OneRollout(RolloutPhase.JUDGING, {})
    proposed.put({"phase": RolloutPhase.PROPOSED, "canary_nodes": []})
    text = part_html(PAGE, "rollout", proposed, rollout="1")
    assert "Whom it can hurt" in text
    assert "<li>8 nodes, at most 2 at once.</li>" in text
    assert "&lt;nobody has measured&gt;" in text
    ended = OneRollout(RolloutPhase.ROLLED_BACK, {})
    ended.put({"told_nodes": ["gpu-1"]})
    text = part_html(PAGE, "rollout", ended, rollout="1")
    assert "<li>1 nodes" not in text and "8 nodes, at most" not in text
    assert "<li>1 node was told, and taken back: gpu-1.</li>" in text
