"""Carries rollouts on: reads telemetry, asks the judge and the machine, and does what they decide.

Guarantees: each telemetry window is judged once, however often a tick is repeated and wherever the service was killed:
the judge's state, how far it has come, the phase and the actions are one transaction, written only if nobody else
wrote meanwhile (`RolloutRow.version`). Telemetry is read outside that transaction. Agents are poked after the commit.
The control plane's absence changes nothing: nodes run on as they are, and the next tick goes on from the row.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlmodel import Session

from controlplane import ledger
from controlplane.contract.bodies.change import needed_class
from controlplane.contract.bodies.configs import Revision
from controlplane.contract.bodies.nodes import NodeView
from controlplane.contract.bodies.rollouts import RolloutPhase, Verdict
from controlplane.contract.knobs import ChangeClass
from controlplane.contract.metrics import WINDOW_S
from controlplane.db.database import Database
from controlplane.fleet import store as fleet
from controlplane.rollouts import machine, store
from controlplane.rollouts.decision import Facts, Gate
from controlplane.rollouts.facts import drawn, groups_of, labels, node_facts, placed, runs
from controlplane.rollouts.hooks import calls
from controlplane.rollouts.judging.arms import Arm, Tick, every_tick, window_ceiling, window_floor
from controlplane.rollouts.judging.evidence_of_metric import Window
from controlplane.rollouts.judging.judge import Judge
from controlplane.rollouts.judging.judging_plan import HISTORY_S, harm_part, plan_of
from controlplane.rollouts.judging.served import Outcomes
from controlplane.rollouts.machine import LAG_S, QUICK_LAG_S, SETTLE_S
from controlplane.rollouts.policies import store as policies
from controlplane.rollouts.stages import grouped, sizes
from controlplane.rollouts.tables import RolloutRow
from controlplane.rollouts.validation.node_findings import findings
from controlplane.rollouts.view import state_of
from controlplane.telemetry import Span, TelemetryReader

logger = logging.getLogger(__name__)

FADING_S = 30.0
"""Time constant of a slow start, where a change has restarted the engine or swapped its weights."""

MAX_WINDOWS = 240
"""Windows judged in one tick at most, so that catching up after an outage does not hold up the other rollouts."""

BLIND_S = 15.0
"""After a longer gap between ticks the controller was away: time-outs stood still, lost nodes get their grace anew."""


@dataclass
class _Snapshot:
    """A rollout and all that a decision about it rests on, read in one transaction."""

    row: RolloutRow
    views: list[NodeView]
    new: Revision
    previous: Revision | None
    closed: str | None  # Why no stage may begin now.
    gate: Gate
    in_force_since: datetime | None  # The previous revision; None where no rollout brought it.


@dataclass(frozen=True)
class _Judged:
    """What a tick's telemetry adds to a rollout."""

    judge: Judge
    until: datetime
    evidence: dict[str, Any]


class RolloutController:
    """One per service process; several replicas may run one each. `poke` tells the agents' hub to look again."""

    def __init__(self, database: Database, telemetry: TelemetryReader, poke: Callable[[], None]) -> None:
        self._database = database
        self._telemetry = telemetry
        self._poke = poke

    def tick(self, now: datetime) -> None:
        """Carry every rollout under way one step on. One that fails is logged and does not stop the others."""
        with self._database.read_session() as session:
            found = store.under_way(session)
        for rollout_id in found:
            try:
                acted = self._tick_one(rollout_id, now)
            except Exception:
                logger.exception("rollout %d: this tick failed, the next one tries again", rollout_id)
                continue
            if acted:
                self._poke()

    def _tick_one(self, rollout_id: int, now: datetime) -> bool:
        with self._database.read_session() as session:
            seen = _snapshot(session, rollout_id, now)
        version = seen.row.version
        judged = self._judge(seen, now) if _is_watched(seen.row) else None
        if judged is None and not _watch(seen, now) and not _is_to_do(seen, now):
            return False
        with self._database.session() as session:
            fresh = _snapshot(session, rollout_id, now, lock=True)
            if fresh.row.version != version:
                return False  # A person or another replica was faster; the next tick sees what became of it.
            _watch(fresh, now)
            if judged is not None:
                fresh.row.judge = judged.judge.model_dump(mode="json")
                fresh.row.judged_until = judged.until
                fresh.row.evidence = _with(fresh.row, judged.evidence)
            fresh.row.version += 1
            session.add(fresh.row)
            facts = _facts(fresh, judged, now)
            decision = machine.advance(state_of(fresh.row), facts, now)
            if decision is not None:
                store.carry_out(session, fresh.row, decision, fresh.views, actor=ledger.SERVICE, now=now)
            elif machine.asks(state_of(fresh.row), facts, now):
                calls.ask(session, fresh.row, facts.gate.unasked, now)
        return decision is not None

    # -- judging -----------------------------------------------------------------------------------------------

    def _judge(self, seen: _Snapshot, now: datetime) -> _Judged | None:
        """Judge the windows that have closed since; None when there are none."""
        row = seen.row
        assert row.judging_since is not None
        first = window_ceiling(row.judging_since + timedelta(seconds=SETTLE_S))
        start = row.judged_until or first
        spec = state_of(row).spec
        newest = self._telemetry.latest() or start
        lag_s = LAG_S if spec.takes_back is None else QUICK_LAG_S
        end = window_floor(min(now - timedelta(seconds=lag_s), newest))
        end = min(end, start + timedelta(seconds=MAX_WINDOWS * WINDOW_S))
        if end <= start:
            return None
        control, canary = self._arms(seen)
        # What an older service has written goes on anew.
        known = row.judge is not None and "plan" in row.judge
        judge = Judge.model_validate(row.judge) if known else self._begin(seen, first)
        for tick in self._ticks(judge.reads, control, canary, Span(start, end)):
            judge.feed(tick.windows, tick.outcomes)
        judge.look()
        verdict = judge.verdict()
        evidence = judge.evidence() | {
            "verdict": None if verdict is None else verdict.value,
            "harmless": judge.harmless,
            "compares": judge.compares,
            "judged_from": first.isoformat(),
            "judged_until": end.isoformat(),
            "judged_s": (end - first).total_seconds(),
        }
        return _Judged(judge, end, evidence)

    def _ticks(self, metrics: Sequence[str], control: Arm, canary: Arm, span: Span) -> list[Tick]:
        return every_tick(self._telemetry, metrics, control, canary, span)

    def _begin(self, seen: _Snapshot, first: datetime) -> Judge:
        """A judge that has learned from the time before the canary, when all nodes ran the previous revision.

        What the pool ran before that one, as a take-back finds it minutes ago, teaches nothing: it has other labels, or
        lies before the previous revision came in force.
        """
        row, state = seen.row, state_of(seen.row)
        assert row.started_at is not None
        plan = plan_of(state.spec)
        assert plan is not None  # An emergency has no phase JUDGING.
        groups = groups_of(seen.views, state.spec, row.node_groups)
        order = grouped(groups, row.told_nodes, state.spec.wave_order, len(row.canary_nodes))
        waves = len(sizes(state.spec, order))
        beside, told = self._nodes(seen)
        judge = Judge.start(
            plan,
            control="concurrent" if beside else "before",
            quick=state.spec.takes_back is not None,
            harm_part=harm_part(is_wave=state.is_wave, waves=waves),
            fading_ticks=0.0 if _is_live(seen) else FADING_S / WINDOW_S,
        )
        known = frozenset(row.control_labels)
        canary = Arm(told, known, seen.in_force_since)
        control = Arm(beside, known, seen.in_force_since) if beside else canary
        end = window_floor(row.started_at)
        span = Span(end - timedelta(seconds=max(HISTORY_S, state.spec.max_judge_s)), end)
        past = self._ticks(judge.reads, control, canary, span)
        history: dict[str, Sequence[Window]] = {
            metric: [tick.windows.get(metric, Window()) for tick in past] for metric in judge.reads
        }
        judge.rehearse(
            history,
            [tick.outcomes or Outcomes() for tick in past],
            gap_ticks=(first - end).total_seconds() / WINDOW_S,
        )
        if state.is_wave and not beside:
            judge.compare_known_pasts_alone()
        return judge

    def _nodes(self, seen: _Snapshot) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The nodes that are compared: those beside, and those that were told."""
        told = frozenset(seen.row.told_nodes)
        return tuple(node for node in seen.row.control_nodes if node not in told), tuple(seen.row.told_nodes)

    def _arms(self, seen: _Snapshot) -> tuple[Arm, Arm]:
        beside, told = self._nodes(seen)
        told_views, beside_views = _of(seen.views, told), _of(seen.views, beside)
        control = frozenset(seen.row.control_labels) | frozenset(labels(beside_views, seen.previous))
        return Arm(beside, control), Arm(told, frozenset(labels(told_views, seen.new)))


def _snapshot(session: Session, rollout_id: int, now: datetime, *, lock: bool = False) -> _Snapshot:
    row = store.row_of(session, rollout_id, lock=lock)
    return _Snapshot(
        row=row,
        views=policies.tellable(session, row.pool),
        closed=policies.closed(session, row.pool, now),
        gate=calls.gate(session, row),
        new=fleet.revision(session, state_of(row).spec.revision),
        previous=None if row.previous_revision is None else fleet.revision(session, row.previous_revision),
        in_force_since=store.in_force_since(session, row),
    )


def _of(views: Sequence[NodeView], nodes: Sequence[str]) -> list[NodeView]:
    wanted = frozenset(nodes)
    return [view for view in views if view.node in wanted]


def _is_watched(row: RolloutRow) -> bool:
    """Whether telemetry is judged: while it is to decide, and on, so that harm shows, while it soaks or is paused."""
    phase = row.resumes if row.phase == RolloutPhase.PAUSED.value else row.phase
    return phase in (RolloutPhase.JUDGING.value, RolloutPhase.SOAKING.value)


def _watch(seen: _Snapshot, now: datetime) -> bool:
    """Note how long nobody watched, and since when nodes under judgement are out of sight or run something else.

    True when this has to be kept.
    """
    row = seen.row
    gap_s = 0.0 if row.watched_at is None else (now - row.watched_at).total_seconds()
    blind = gap_s > BLIND_S
    before = {} if blind else row.lost_since
    watched = _is_watched(row)
    canary = _of(seen.views, row.told_nodes) if watched else []
    lost = {view.node: before.get(view.node, now.isoformat()) for view in canary if _is_lost(view, seen.new)}
    if lost == row.lost_since and gap_s < WINDOW_S:
        return False
    row.lost_since, row.watched_at = lost, now
    row.away_s += gap_s if blind else 0.0
    return True


def _is_lost(view: NodeView, new: Revision) -> bool:
    return not view.connected or not runs(view, new)


def _is_live(seen: _Snapshot) -> bool:
    """Whether every node that was told took the revision while it served on."""
    if seen.previous is None:
        return False
    wanted = seen.previous.knobs.knobs()  # Going there takes what coming from there took.
    return all(
        needed_class(view.backend, view.effective, wanted) in (None, ChangeClass.LIVE)
        for view in _of(seen.views, seen.row.told_nodes)
        if view.effective is not None
    )


def _is_to_do(seen: _Snapshot, now: datetime) -> bool:
    state, facts = state_of(seen.row), _facts(seen, None, now)
    return machine.advance(state, facts, now) is not None or machine.asks(state, facts, now)


def _facts(seen: _Snapshot, judged: _Judged | None, now: datetime) -> Facts:
    row, state = seen.row, state_of(seen.row)
    said = _said(row) if judged is None else judged.evidence
    left_s = state.spec.longest_judge_s - float(said.get("judged_s", 0.0))
    needed_s = said.get("needed_s")
    validating = state.phase is RolloutPhase.VALIDATING
    # A canary is drawn; later waves go by name.
    views = drawn(seen.views, row.id or 0) if validating else seen.views
    facts = node_facts(views, seen.new, seen.previous, _lost_s(row, now))
    return Facts(
        nodes=tuple(placed(facts, views, state.spec, row.node_groups)),
        judged=None if said.get("verdict") is None else Verdict(said["verdict"]),
        harmless=said.get("harmless", True),
        decides=needed_s is not None and needed_s <= left_s,
        compares=said.get("compares", True),
        findings=tuple(findings(seen.new.knobs.knobs(), seen.views)) if validating else (),
        unheard=tuple(view.node for view in seen.views if validating and view.connected and view.effective is None),
        closed=seen.closed,
        gate=seen.gate,
    )


def _said(row: RolloutRow) -> dict[str, Any]:
    """What the judge said at last of those that are judged now."""
    if row.judge is None:
        return {}
    waves: list[dict[str, Any]] = row.evidence.get("waves", [])
    return waves[-1] if state_of(row).is_wave and waves else row.evidence


def _with(row: RolloutRow, found: dict[str, Any]) -> dict[str, Any]:
    """The row's evidence with what was found of the canary, or of the wave that is judged now."""
    if not state_of(row).is_wave:
        return row.evidence | found
    waves = [one for one in row.evidence.get("waves", []) if one["nodes"] != row.told_nodes]
    return row.evidence | {"waves": [*waves, {"nodes": row.told_nodes, **found}]}


def _lost_s(row: RolloutRow, now: datetime) -> dict[str, float]:
    """By node that is out of sight, or runs something else."""
    return {node: (now - datetime.fromisoformat(since)).total_seconds() for node, since in row.lost_since.items()}
