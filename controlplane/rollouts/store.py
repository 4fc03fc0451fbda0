"""Rollouts in the database, inside the caller's transaction; decisions of the machine are carried out here.

Guarantee: a decision's actions, the phase it leads to and its ledger entry are one transaction.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any

from sqlalchemy import String, cast
from sqlalchemy.exc import IntegrityError
from sqlmodel import Session, col, select

from controlplane import ledger
from controlplane.contract.bodies.nodes import NodeRole, NodeView
from controlplane.contract.bodies.rollouts import ENDED, NOT_BEGUN, Rollout, RolloutCreate, RolloutPhase, Verdict
from controlplane.contract.errors import Conflict, Forbidden
from controlplane.db.rows import existing, newest
from controlplane.fleet import store as fleet
from controlplane.rollouts import machine, patience
from controlplane.rollouts.approval import Hand, why_the_same
from controlplane.rollouts.checks import check_differs, check_rollout
from controlplane.rollouts.decision import ClearOverrides, Decision, SetOverride, SetPoolRevision
from controlplane.rollouts.facts import drawn, groups_of, labels, node_facts, placed
from controlplane.rollouts.hooks import calls
from controlplane.rollouts.policies import store as policies
from controlplane.rollouts.policies.gates import bounded, is_named
from controlplane.rollouts.tables import RolloutRow
from controlplane.rollouts.validation.checker import kept, refuse_unfit
from controlplane.rollouts.view import rollout_view, state_of

WAITS_FOR_APPROVAL = "waits for the approval of another admin"


def create(
    session: Session,
    spec: RolloutCreate,
    *,
    actor: str,
    now: datetime,
    hand: Hand | None = None,
    two: bool = False,
    validates: bool = False,
    follows: int | None = None,
) -> Rollout:
    """Record a wanted rollout, and begin it when `spec.start` says so and nobody has to approve.

    `two`: an emergency waits for another hand than this one. `validates`: the controller holds it against each node
    before the canary. `follows`: the rollout that it retries or reverts.
    """
    serving = fleet.nodes(session, pool=spec.pool, role=NodeRole.SERVING)
    tellable = check_rollout(session, spec, serving, again=follows is not None)
    policy = policies.policy_of(session, spec.pool)
    if hand is not None and not is_named(policy.proposers, hand.names):
        raise Forbidden(
            f"pool: the policy of {spec.pool!r} lets {', '.join(policy.proposers)} propose alone", field="Authorization"
        )
    spec = bounded(spec, policy)
    if spec.apply_timeout_s is None:
        derived = patience.apply_timeout_s(serving, fleet.revision(session, spec.revision))
        spec = spec.model_copy(update={"apply_timeout_s": derived})
    # What a rule's remedy starts by itself was approved with the rule.
    waits = spec.wants_approval or (two and spec.emergency) or (policy.needs_approval and hand is not None)
    phase = RolloutPhase.AWAITING_APPROVAL if waits else RolloutPhase.PROPOSED
    row = RolloutRow(
        phase=phase.value,
        pool=spec.pool,
        spec=spec.model_dump(mode="json"),
        message=WAITS_FOR_APPROVAL if waits else "waits to be started",
        created_by=actor,
        proposer=None if hand is None else hand.kept(),
        needs_approval=waits,
        created_at=now,
        follows=follows,
    )
    session.add(row)
    session.flush()
    because = f": {spec.reason}" if spec.reason else ""
    message = f"rollout of revision {spec.revision} to pool {spec.pool}{because}"
    record(session, row, "created", now, actor, message, spec=row.spec, study_id=spec.study_id, **_about(row))
    if spec.start and not waits:
        _start(session, row, tellable, actor=actor, now=now, validates=validates)
    return shown(session, row)


def start(
    session: Session, rollout_id: int, *, actor: str, now: datetime, two: bool = False, validates: bool = False
) -> Rollout:
    """Begin a proposed rollout. Raises `Conflict` when another is under way in its pool, `Forbidden` for one that
    another has to approve."""
    row = row_of(session, rollout_id, lock=True)
    if RolloutPhase(row.phase) in NOT_BEGUN:
        if _wants_approval(row, two):
            what = "an emergency, which begins" if row.spec.get("emergency") else "to begin only"
            raise Forbidden(
                f"rollout {row.id} is {what} when another admin approves it: "
                f"POST /api/v1/rollouts/{row.id}/approve, or tailwright rollout approve {row.id}",
                field="rollout_id",
            )
        check_differs(session, RolloutCreate.model_validate(row.spec))
    _start(session, row, policies.tellable(session, row.pool), actor=actor, now=now, validates=validates)
    return shown(session, row)


def approve(
    session: Session,
    rollout_id: int,
    *,
    hand: Hand,
    actor: str,
    now: datetime,
    two: bool = False,
    validates: bool = False,
) -> Rollout:
    """Begin what somebody else has proposed. Raises `Forbidden` for who proposed it, `Conflict` for a rollout that
    waits for no approval."""
    row = row_of(session, rollout_id, lock=True)
    if RolloutPhase(row.phase) not in NOT_BEGUN or not _wants_approval(row, two):
        raise Conflict(f"rollout {row.id} ({row.phase}) waits for no approval", field="rollout_id")
    # One that was proposed before two were asked for does not say by whom, but in the ledger.
    if row.proposer is None and row.created_by != ledger.SERVICE:
        raise Conflict(f"rollout {row.id} does not say who proposed it; propose it anew", field="rollout_id")
    same = None if row.proposer is None else why_the_same(hand, Hand.of_kept(row.proposer))
    if same is not None:
        raise Forbidden(f"rollout {row.id} wants another admin's approval: {same}", field="Authorization")
    approvers = policies.policy_of(session, row.pool).approvers
    if not is_named(approvers, hand.names):
        raise Forbidden(
            f"pool: the policy of {row.pool!r} lets {', '.join(approvers)} approve alone", field="Authorization"
        )
    check_differs(session, RolloutCreate.model_validate(row.spec))
    row.approved_by, row.approved_at = actor, now
    message = f"proposed by {row.created_by}, approved by {actor}"
    record(
        session, row, "approved", now, actor, message, proposed_by=row.created_by, proposer=row.proposer, **_about(row)
    )
    _start(session, row, policies.tellable(session, row.pool), actor=actor, now=now, validates=validates)
    return shown(session, row)


def get(session: Session, rollout_id: int) -> Rollout:
    return shown(session, row_of(session, rollout_id))


def listing(
    session: Session, *, before_id: int | None, limit: int, pool: str | None = None, phase: RolloutPhase | None = None
) -> list[Rollout]:
    """Newest first."""
    query = newest(RolloutRow, before_id, limit)
    if pool is not None:
        query = query.where(RolloutRow.pool == pool)
    if phase is not None:
        query = query.where(RolloutRow.phase == phase.value)
    rows = session.exec(query).all()
    told = calls.of_rollouts(session, [row.id for row in rows])
    return [rollout_view(row, told.get(row.id or 0, ())) for row in rows]


def shown(session: Session, row: RolloutRow) -> Rollout:
    """With what its hooks have answered."""
    return rollout_view(row, calls.of_rollouts(session, [row.id]).get(row.id or 0, ()))


def active(session: Session, pool: str) -> Rollout | None:
    """The rollout under way in a pool, if any."""
    row = session.exec(select(RolloutRow).where(RolloutRow.active_pool == pool)).first()
    return None if row is None else rollout_view(row)


@dataclass(frozen=True)
class Outline:
    """What a rollout was, without its nodes and its evidence, which are as large as its pool."""

    id: int
    phase: RolloutPhase
    spec: RolloutCreate
    verdict: Verdict | None = None
    previous_revision: int | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None


_OUTLINE = (
    *(col(RolloutRow.id), col(RolloutRow.phase), cast(col(RolloutRow.spec), String), col(RolloutRow.verdict)),
    *(col(RolloutRow.previous_revision), col(RolloutRow.started_at), col(RolloutRow.ended_at)),
)


def outlines(session: Session, pool: str, *, limit: int, under_way: bool = False) -> list[Outline]:
    """Of a pool's rollouts, newest first; `under_way`: of the one that is, if any."""
    query = select(*_OUTLINE).order_by(col(RolloutRow.id).desc()).limit(limit)  # type: ignore[call-overload]
    query = query.where(RolloutRow.active_pool == pool if under_way else RolloutRow.pool == pool)
    return [
        Outline(number, RolloutPhase(phase), _spec_of(spec), None if verdict is None else Verdict(verdict), *rest)
        for number, phase, spec, verdict, *rest in session.execute(query)
    ]


@lru_cache(maxsize=1024)
def _spec_of(text: str) -> RolloutCreate:
    """To be read only."""
    return RolloutCreate.model_validate_json(text)


def waiting(session: Session) -> list[Rollout]:
    """Those that wait for somebody: held, or for another's approval; the oldest first."""
    is_open = col(RolloutRow.active_pool).is_not(None) | (RolloutRow.phase == RolloutPhase.AWAITING_APPROVAL.value)
    rows = session.exec(select(RolloutRow).where(is_open).order_by(col(RolloutRow.id))).all()
    told = calls.of_rollouts(session, [row.id for row in rows])
    found = [rollout_view(row, told.get(row.id or 0, ())) for row in rows]
    return [one for one in found if one.held is not None or one.phase is RolloutPhase.AWAITING_APPROVAL]


def busy_pools(session: Session) -> dict[str, str]:
    """Pools with a rollout under way, and what is under way there."""
    query = select(RolloutRow).where(col(RolloutRow.active_pool).is_not(None))
    return {row.pool: f"rollout {row.id} ({row.phase})" for row in session.exec(query)}


def under_way(session: Session) -> list[int]:
    """Ids of all rollouts under way, the oldest first."""
    query = select(RolloutRow.id).where(col(RolloutRow.active_pool).is_not(None)).order_by(col(RolloutRow.id))
    return [found for found in session.exec(query) if found is not None]


def in_force_since(session: Session, row: RolloutRow) -> datetime | None:
    """When the pool's last rollout before this one brought the revision that this one finds; None: none did."""
    query = (
        select(RolloutRow)
        .where(RolloutRow.pool == row.pool, RolloutRow.phase == RolloutPhase.PROMOTED.value)
        .where(col(RolloutRow.id) < row.id)
        .order_by(col(RolloutRow.ended_at).desc())
        .limit(1)
    )
    last = session.exec(query).first()
    return last.ended_at if last is not None and last.spec["revision"] == row.previous_revision else None


def row_of(session: Session, rollout_id: int, *, lock: bool = False) -> RolloutRow:
    return existing(session, RolloutRow, rollout_id, "rollout", field="rollout_id", lock=lock)


def _wants_approval(row: RolloutRow, two: bool) -> bool:
    return row.approved_by is None and (row.needs_approval or (two and bool(row.spec.get("emergency"))))


def _start(
    session: Session, row: RolloutRow, views: Sequence[NodeView], *, actor: str, now: datetime, validates: bool
) -> None:
    spec = RolloutCreate.model_validate(row.spec)
    if RolloutPhase(row.phase) in NOT_BEGUN:
        other = active(session, row.pool)
        if other is not None:
            raise Conflict(
                f"pool: rollout {other.id} is under way in pool {row.pool!r} ({other.phase.value}); "
                "wait for its end or cancel it",
                field="pool",
                rollout_id=other.id,
            )
        row.previous_revision = fleet.pool_revision(session, row.pool)
        policies.check_not_pinned(session, row.pool, spec.revision)
        _pass_gate(session, row, spec, actor, now)
    new = fleet.revision(session, spec.revision)
    refuse_unfit(spec, new, views)
    previous = None if row.previous_revision is None else fleet.revision(session, row.previous_revision)
    in_order = drawn(views, row.id or 0)
    facts = placed(node_facts(in_order, new, previous), in_order, spec, {})
    decision = machine.start(state_of(row), facts, validates=validates)
    row.started_at = now
    row.control_labels = labels(views, previous)
    pins = policies.pinned(session, row.pool)
    if pins:
        row.evidence = {"pinned": {node: f"pin {pin.id}: {pin.reason}" for node, pin in pins.items() if node}}
    if spec.emergency:
        row.evidence = row.evidence | {"control": "none", "unjudged": True, "reason": spec.reason}
    record(session, row, "started", now, actor, f"started by {actor}", **_about(row))
    try:
        with session.begin_nested():
            carry_out(session, row, decision, views, actor=actor, now=now)
    except IntegrityError:  # Another replica has just started one (PostgreSQL only).
        raise Conflict(f"pool: another rollout is under way in pool {row.pool!r}", field="pool") from None


def _pass_gate(session: Session, row: RolloutRow, spec: RolloutCreate, actor: str, now: datetime) -> None:
    """Raises `Conflict` in a freeze window or outside the pool's hours; an emergency goes through, and is noted."""
    closed = policies.closed(session, row.pool, now)
    if closed is None:
        return
    if not spec.emergency:
        raise Conflict(f"pool: no rollout begins: {closed}", field="pool")
    record(session, row, "gate_passed", now, actor, f"an emergency begins although {closed}", **_about(row))


def carry_out(
    session: Session, row: RolloutRow, decision: Decision, found: Sequence[NodeView], *, actor: str, now: datetime
) -> None:
    """Do what the machine has decided, and write it down. found: the pool's nodes that may be told, as this transaction
    has read them."""
    before = RolloutPhase(row.phase)
    assert decision.phase in machine.TRANSITIONS[before], f"{before.value} to {decision.phase.value}"
    known = {node.node for node in found}
    spec = RolloutCreate.model_validate(row.spec)
    if spec.wave_by:
        row.node_groups = {**row.node_groups, **groups_of(found, spec, row.node_groups)}
    for action in decision.actions:
        match action:
            case SetOverride(nodes, revision):
                # A node that has left the pool since, or is pinned, is not ours to change.
                fleet.set_override(session, [node for node in nodes if node in known], revision, now)
            case ClearOverrides(nodes):
                fleet.set_override(session, [node for node in nodes if node in known], None, now)
            case SetPoolRevision(revision):
                fleet.set_pool_revision(session, row.pool, revision, now)
    row.phase = decision.phase.value
    row.verdict = None if decision.verdict is None else decision.verdict.value
    row.message = decision.message
    row.canary_nodes = list(decision.canary_nodes)
    row.told_nodes = list(decision.told_nodes)
    if decision.phase is RolloutPhase.CANARY and before is not RolloutPhase.PAUSED:
        row.started_at = now  # What is before it is the past that its nodes are compared with.
        canary = frozenset(decision.canary_nodes)
        row.control_nodes = [node.node for node in found if node.node not in canary]
    row.resumes = None if decision.resumes is None else decision.resumes.value
    row.step += 1
    row.step_since = now
    row.lost_since, row.watched_at, row.away_s = {}, now, 0.0
    if decision.phase is RolloutPhase.JUDGING and before is not RolloutPhase.PAUSED:
        row.judging_since, row.judge, row.judged_until = now, None, None  # Of the canary, or of a wave anew.
    if before is RolloutPhase.VALIDATING:
        row.evidence = row.evidence | kept(decision.findings)
    ended = decision.phase in ENDED
    row.active_pool = None if ended else row.pool
    if ended:
        row.ended_at = now
        row.judge = None  # Its account stays in the evidence.
        row.evidence = row.evidence | {"nodes_at_end": _nodes_at_end(session, row)}
    row.version += 1
    session.add(row)
    session.flush()
    record(session, row, decision.phase.value, now, actor, decision.message, **_evidence(row))
    calls.tell(session, row, now)


def _about(row: RolloutRow) -> dict[str, Any]:
    """What every ledger entry of a rollout says of it."""
    return {
        "pool": row.pool,
        "verdict": row.verdict,
        "revision": row.spec["revision"],
        "previous_revision": row.previous_revision,
        "emergency": row.spec.get("emergency", False),
        "takes_back": row.spec.get("takes_back"),
        "told_nodes": row.told_nodes,
    }


def _evidence(row: RolloutRow) -> dict[str, Any]:
    said = {
        **_about(row),
        "canary_nodes": row.canary_nodes,
        "control_nodes": row.control_nodes,
        "judging": row.evidence,
    }
    return said | {"effect": _effect(row)} if RolloutPhase(row.phase) in ENDED else said


def _effect(row: RolloutRow) -> dict[str, Any]:
    """By metric, the quantiles of both arms while they were compared, in seconds; empty where nobody judged."""
    judged: dict[str, Any] = row.evidence.get("metrics", {})
    return {metric: {arm: account[arm] for arm in ("control", "canary")} for metric, account in judged.items()}


def _nodes_at_end(session: Session, row: RolloutRow) -> dict[str, Any]:
    """What each serving node ran when the rollout ended: later changes of the pool do not show in an old rollout."""
    return {
        view.node: None
        if view.effective is None
        else {"revision": view.effective.revision, "knobs": view.effective.knobs}
        for view in fleet.nodes(session, pool=row.pool, role=NodeRole.SERVING)
    }


def record(
    session: Session, row: RolloutRow, verb: str, now: datetime, actor: str, message: str, **evidence: Any
) -> None:
    ledger.append(session, now, actor, f"rollout.{verb}", f"rollout/{row.id}", message, **evidence)
