"""Policies, freeze windows and pins, as rollouts meet them."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from sqlmodel import Session, col, select

from controlplane.contract.bodies.rollouts import Rollout, RolloutCreate, RolloutPhase
from controlplane.contract.errors import BadRequest, Conflict, Forbidden
from controlplane.contract.on_call.rollout_policies import FreezeCreate, PinCreate, RolloutPolicyCreate
from controlplane.ledger.tables import LedgerRow
from controlplane.rollouts import steering
from controlplane.rollouts import store as rollouts
from controlplane.rollouts.approval import Hand
from controlplane.rollouts.policies import store

ANN, EVE = Hand(1, None, names=("ann",)), Hand(2, None, names=("eve",))


@pytest.fixture
def new(fleet: Any) -> int:
    """A revision that is not in production; a, b and c run another."""
    fleet.add("a", "b", "c")
    old, new = fleet.revision(16), fleet.revision(64)
    fleet.put_in_production(old)
    return int(new)


def create(session: Session, revision: int, now: datetime, hand: Hand | None = ANN, **more: Any) -> Rollout:
    spec = RolloutCreate(pool="chat", revision=revision, **more)
    return rollouts.create(session, spec, actor="ann", now=now, hand=hand)


def test_in_a_freeze_no_rollout_begins_but_an_emergency_which_is_noted(
    fleet: Any, new: int, start: datetime, ledger_kinds: Any
) -> None:
    ends = start + timedelta(hours=1)
    with fleet.database.session() as session:
        window = FreezeCreate(starts_at=start, ends_at=ends, reason="fair")
        made = store.freeze(session, window, actor="ann", now=start)
        with pytest.raises(Conflict, match="no rollout begins: freeze 1 holds every pool until 2025-03-01 13:00 UTC"):
            create(session, new, start, start=True)
        session.rollback()
    with fleet.database.session() as session:
        store.freeze(session, window, actor="ann", now=start)
        begun = create(session, new, start, emergency=True, reason="all fail")
        assert begun.phase is RolloutPhase.PROMOTING
        with pytest.raises(BadRequest, match="ends_at"):
            store.freeze(session, window.model_copy(update={"ends_at": start}), actor="ann", now=start)
    assert "rollout.gate_passed" in ledger_kinds()
    assert made.reason == "fair"


def test_a_lifted_freeze_holds_nobody(fleet: Any, new: int, start: datetime) -> None:
    with fleet.database.session() as session:
        window = FreezeCreate(pool="chat", starts_at=start, ends_at=start + timedelta(hours=1), reason="fair")
        made = store.freeze(session, window, actor="ann", now=start)
        assert store.closed(session, "chat", start) is not None and store.closed(session, "code", start) is None
        store.lift(session, made.id, actor="eve", now=start)
        assert create(session, new, start).phase is RolloutPhase.CANARY
    with Session(fleet.database.engine) as session:
        ours = col(LedgerRow.kind).startswith("rollout_rule")
        kinds = session.exec(select(LedgerRow.kind).where(ours).order_by(col(LedgerRow.id))).all()
    assert list(kinds) == ["rollout_rule.frozen", "rollout_rule.freeze_lifted"]


def test_a_pinned_node_is_told_nothing_and_the_reason_is_shown(fleet: Any, new: int, start: datetime) -> None:
    with fleet.database.session() as session:
        pin = store.pin(session, PinCreate(pool="chat", node="b", reason="a bisection"), None, actor="ann", now=start)
        assert pin.revision == 1
        with pytest.raises(Conflict, match="pinned already"):
            store.pin(session, PinCreate(pool="chat", node="b", reason="again"), None, actor="ann", now=start)
        begun = create(session, new, start, emergency=True, reason="all fail")
        assert begun.told_nodes == ["a", "c"] and begun.evidence["pinned"] == {"b": "pin 1: a bisection"}
        with pytest.raises(Conflict, match="under way"):
            store.unpin(session, pin.id, rollouts.busy_pools(session), actor="ann", now=start)
    assert {view.node: view.desired_revision for view in fleet.views()} == {"a": new, "b": 1, "c": new}
    with fleet.database.session() as session:
        steering.cancel(session, begun.id, actor="ann", now=start)
    with fleet.database.session() as session:
        store.unpin(session, pin.id, {}, actor="ann", now=start)
    assert {view.desired_revision for view in fleet.views()} == {1}


def test_a_pinned_pool_takes_no_other_revision(fleet: Any, new: int, start: datetime) -> None:
    with fleet.database.session() as session:
        store.pin(session, PinCreate(pool="chat", reason="audit"), None, actor="ann", now=start)
        for emergency in (False, True):
            with pytest.raises(Conflict, match=r"pinned to revision 1 by ann \(pin 1\): audit"):
                create(session, new, start, emergency=emergency, reason="x")
        for wanted, error in (("nobody", BadRequest), ("a", Conflict)):
            with pytest.raises(error):
                pin = PinCreate(pool="chat", node=wanted, reason="x")
                store.pin(session, pin, "rollout 9 (canary)" if wanted == "a" else None, actor="ann", now=start)
        session.rollback()


def test_a_policy_says_who_proposes_who_approves_and_how_much_at_once(fleet: Any, new: int, start: datetime) -> None:
    with fleet.database.session() as session:
        policy = RolloutPolicyCreate(
            pool="chat", proposers=["Ann"], approvers=["eve"], needs_approval=True, max_step_share=0.34
        )
        store.set_policy(session, policy, actor="root", now=start)
        with pytest.raises(Forbidden, match="lets Ann propose alone"):
            create(session, new, start, EVE)
        made = create(session, new, start, canary_share=0.5)
        assert (made.phase, made.spec.max_step_share) == (RolloutPhase.AWAITING_APPROVAL, 0.34)
        mallory = Hand(3, None, names=("mallory",))
        with pytest.raises(Forbidden, match="lets eve approve alone"):
            rollouts.approve(session, made.id, hand=mallory, actor="mallory", now=start)
        begun = rollouts.approve(session, made.id, hand=EVE, actor="eve", now=start)
        assert begun.phase is RolloutPhase.CANARY and len(begun.waves) == 3
        steering.abort(session, made.id, actor="ann", now=start)


def test_what_the_service_itself_begins_wants_no_approval(fleet: Any, new: int, start: datetime) -> None:
    with fleet.database.session() as session:
        policy = RolloutPolicyCreate(pool="chat", proposers=["ann"], needs_approval=True)
        kept = store.set_policy(session, policy, actor="root", now=start)
        assert store.set_policy(session, policy, actor="root", now=start).id == kept.id
        assert create(session, new, start, None).phase is RolloutPhase.CANARY
        store.remove_policy(session, kept.id, actor="root", now=start)
        assert not store.policy_of(session, "chat").needs_approval
