"""What names people goes when it is old; nobody who may come in loses anything, and nobody who may not comes in."""

from datetime import UTC, datetime, timedelta

import pytest
from prometheus_client import CollectorRegistry
from sqlmodel import select

from controlplane import ledger
from controlplane.auth import browser_sessions, store
from controlplane.auth.personal import old_rows
from controlplane.auth.personal.old_rows import OldRows
from controlplane.auth.tables import BrowserSessionRow, PersonRow, TokenRow
from controlplane.contract.bodies.access import Scope
from controlplane.db import Database
from controlplane.ledger.inspection import verify

NOW = datetime(2030, 1, 1, 12, tzinfo=UTC)
KEPT = timedelta(days=400)
OLD, YOUNG = NOW - KEPT - timedelta(seconds=1), NOW - KEPT


def person(database: Database, name: str, signed_in: datetime) -> int:
    with database.session() as session:
        row = PersonRow(
            issuer="i", digest=name, name=name, role="viewer", first_seen_at=OLD - KEPT, signed_in_at=signed_in
        )
        session.add(row)
        session.flush()
        assert row.id is not None
        browser_sessions.begin(session, signed_in, person_id=row.id)
        return row.id


def token(database: Database, name: str, *, expires: datetime | None = None, revoked: datetime | None = None) -> str:
    with database.session() as session:
        view, secret = store.issue(
            session, name=name, scope=Scope.READ, now=OLD - KEPT, owner=f"{name}'s", expires_at=expires
        )
        if revoked is not None:
            store.revoke(session, view.id, actor="t", now=revoked)
        store.note_uses(session, [view.id], OLD - KEPT)
        return secret


def run(database: Database) -> dict[str, float]:
    registry = CollectorRegistry()
    tick = OldRows(database, KEPT, registry).tick
    tick(NOW)
    counts = {what: registry.get_sample_value("tailwright_personal_data_removed_total", {"what": what}) for what in
              ("person", "token")}  # fmt: skip
    tick(NOW)
    for what, count in counts.items():
        assert registry.get_sample_value("tailwright_personal_data_removed_total", {"what": what}) == count, "once"
    return {what: count or 0.0 for what, count in counts.items()}


def test_who_signs_in_no_more_goes_and_the_others_stay(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(old_rows, "BATCH", 2)
    gone = [person(database, f"gone-{number}", OLD) for number in range(5)]
    stays = person(database, "ann", YOUNG)
    here = person(database, "here", NOW)
    last = person(database, "last", OLD)
    assert run(database) == {"person": 6.0, "token": 0.0}
    with database.read_session() as session:
        assert [row.id for row in session.exec(select(PersonRow).order_by("id"))] == [stays, here]
        assert [row.person_id for row in session.exec(select(BrowserSessionRow))] == [here]
        told = ledger.entries(session, before_id=None, limit=20, kind="person.removed")
    assert sorted(entry.subject for entry in told) == [f"person/{number}" for number in [*gone, last]]
    assert not any("gone-" in entry.model_dump_json() or "last" in entry.message for entry in told)
    assert verify(database)[1] is None
    assert person(database, "last", NOW) > last, "who comes again is another number: the ledger has the one before"


def test_a_token_that_ended_long_ago_has_no_name_and_stays_refused(database: Database) -> None:
    ended = [token(database, "revoked", revoked=OLD), token(database, "expired", expires=OLD)]
    both = token(database, "both", expires=OLD, revoked=NOW)
    kept = [token(database, "lives"), token(database, "young", revoked=YOUNG), token(database, "soon", expires=NOW)]
    with database.read_session() as session:
        before = store.revoked(session)
    assert run(database) == {"person": 0.0, "token": 2.0}
    with database.read_session() as session:
        rows = session.exec(select(TokenRow).order_by("id")).all()
        assert [(row.name, row.owner, row.last_used_at is None) for row in rows] == [
            ("token 1", None, True),
            ("token 2", None, True),
            ("both", "both's", False),
            ("lives", "lives's", False),
            ("young", "young's", False),
            ("soon", "soon's", False),
        ]
        assert store.revoked(session) == before, "a restored backup is told of each"
        assert all(store.was_issued(session, secret) for secret in [*ended, both, *kept]), "no file brings it back"
        assert store.find(session, ended[0]) is None
        (entry,) = ledger.entries(session, before_id=None, limit=20, kind="token.names_removed")
    assert entry.evidence == {"tokens": [1, 2]} and "revoked" not in entry.message
    assert verify(database)[1] is None
