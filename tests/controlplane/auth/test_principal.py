"""Who speaks by a header: whom the ledger and the limits take it for, and what its scope lets it do."""

from datetime import UTC, datetime

import pytest

from controlplane.auth import Principal, store
from controlplane.auth.principal import authenticate_all, check_scope, check_time
from controlplane.contract.bodies.access import Scope
from controlplane.contract.errors import Forbidden, TokenExpired
from controlplane.db.database import Database

NOW = datetime(2026, 1, 1, tzinfo=UTC)
ANN = Principal("ann", Scope.READ, None, session_id=3, person_id=7)
CI = Principal("ci", Scope.READ, 4)
MAY = {
    Scope.READ: "read",
    Scope.OPERATE: "read operate post",
    Scope.ADMIN: "read operate admin agent enrol post",
    Scope.AGENT: "agent",
    Scope.ENROL: "enrol",
    Scope.POST: "post",
}


def test_a_token_and_a_person_are_told_apart() -> None:
    assert (CI.kind, CI.holder, str(CI.actor), CI.actor.evidence) == ("the token", "token/4", "ci", {"token_id": 4})
    assert (ANN.kind, ANN.holder) == ("the session of", "person/7")
    assert (str(ANN.actor), ANN.actor.evidence) == ("ann", {"person_id": 7})


def test_many_headers_are_looked_up_at_once_each_with_its_own_answer(database: Database) -> None:
    with database.session() as session:
        view, token = store.issue(
            session, name="n1", scope=Scope.AGENT, now=NOW, node="n1", pool="chat", expires_at=NOW
        )
        ended, gone = store.issue(session, name="e", scope=Scope.READ, now=NOW)
        store.revoke(session, ended.id, actor="t", now=NOW)
    lives, revoked, unknown = f"Bearer {token}", f"Bearer {gone}", f"Bearer {token}x"
    assert authenticate_all(database, [lives, revoked, unknown, ""]) == {
        lives: Principal("n1", Scope.AGENT, view.id, "n1", pool="chat", expires_at=NOW),  # Its time is asked elsewhere.
        revoked: "this token is unknown or revoked",
        unknown: "this token is unknown or revoked",
        "": "send 'Authorization: Bearer TOKEN'",
    }


def test_time_is_over_at_the_end_itself() -> None:
    check_time(NOW.replace(microsecond=1), NOW)
    with pytest.raises(TokenExpired, match="has expired on 2026-01-01"):
        check_time(NOW, NOW)


@pytest.mark.parametrize("scope", Scope)
def test_each_scope_may_do_what_it_implies_and_no_more(scope: Scope) -> None:
    assert set(MAY) == set(Scope)
    for wanted in Scope:
        if wanted.value in MAY[scope].split():
            check_scope(Principal("t", scope, 1), wanted)
            continue
        with pytest.raises(Forbidden, match=f"needs scope {wanted}, the token 't' has {scope}") as refused:
            check_scope(Principal("t", scope, 1), wanted)
        assert refused.value.detail["needed"] == wanted.value
