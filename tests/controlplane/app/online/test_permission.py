"""Steps begin by themselves: who asks for them has to be one who may propose, where nobody approves each."""

from datetime import UTC, datetime

import pytest
from sqlmodel import Session

from controlplane.app.online import may_tune
from controlplane.auth import Principal
from controlplane.auth import store as tokens
from controlplane.contract.bodies.access import Scope
from controlplane.contract.errors import Conflict, Forbidden
from controlplane.contract.on_call.rollout_policies import RolloutPolicyCreate
from controlplane.db.database import Database
from controlplane.rollouts.policies import store as policies

NOW = datetime(2026, 5, 1, tzinfo=UTC)


def asks(session: Session, name: str) -> Principal:
    view, _ = tokens.issue(session, name=name, scope=Scope.OPERATE, now=NOW)
    return Principal(name=name, scope=Scope.OPERATE, token_id=view.id)


def test_where_rollouts_want_an_approval_no_study_steps_by_itself(database: Database) -> None:
    with database.session() as session:
        may_tune(session, "chat", asks(session, "ann"))
        wanted = RolloutPolicyCreate(pool="chat", needs_approval=True)
        policies.set_policy(session, wanted, actor="root", now=NOW)
        with pytest.raises(Conflict, match="online: the policy of pool 'chat' wants each rollout approved"):
            may_tune(session, "chat", asks(session, "bob"))


def test_who_may_not_propose_may_not_ask_for_steps(database: Database) -> None:
    with database.session() as session:
        wanted = RolloutPolicyCreate(pool="chat", proposers=["Ann"])
        policies.set_policy(session, wanted, actor="root", now=NOW)
        may_tune(session, "chat", asks(session, "ann"))
        may_tune(session, "code", asks(session, "eve"))
        with pytest.raises(Forbidden, match="lets Ann propose alone"):
            may_tune(session, "chat", asks(session, "bob"))
