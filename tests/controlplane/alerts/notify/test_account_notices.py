"""People are told of their tokens and sessions: over a real mail server and a real receiver, once, whatever fails."""

import json
import ssl
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import trustme
from sqlmodel import select

from controlplane import ledger
from controlplane.alerts import store as alerts
from controlplane.alerts.lives.expiry import _remove
from controlplane.alerts.notify.account_notices import AccountNotices
from controlplane.alerts.notify.delivery import Deliverer
from controlplane.alerts.notify.one_attempt import Carriers
from controlplane.alerts.tables import DeliveryRow
from controlplane.app import sign_in_record
from controlplane.app.sign_in_settings import SignInSettings
from controlplane.auth import known_people, store, token_ends
from controlplane.contract.bodies.access import Scope, TokenCreate
from controlplane.contract.bodies.alerts import Silenced
from controlplane.contract.bodies.people import Role
from controlplane.contract.channels.destination_kinds import DestinationKind
from controlplane.contract.channels.destinations import DestinationCreate
from controlplane.db import Database
from controlplane.outgoing import ANYWHERE
from tests.keyrings import keyring_of
from tests.mail_server import MailServer

NOW = datetime(2030, 1, 1, 12, tzinfo=UTC)
NOTICES = Silenced(matchers={"notice": "account"})


class World:
    """The service's part: a clock that is set, notices written, then whatever is due sent."""

    def __init__(self, database: Database, trust: ssl.SSLContext) -> None:
        self.database, self.now = database, NOW
        self.notices = AccountNotices(database, "http://t")
        self.deliverer = Deliverer(database, keyring_of(database), clock=lambda: self.now, policy=ANYWHERE)
        self.deliverer._carriers = Carriers(self.deliverer._carriers.http, ANYWHERE, trust)
        self.notices.tick(self.now)  # What is older is not told.

    def at(self, now: datetime) -> None:
        self.now = now
        with self.database.session() as session:
            token_ends.tell(session, now)
        self.notices.tick(now)
        self.deliverer.tick(now)
        assert self.deliverer.settle(10)

    def add(self, name: str, kind: DestinationKind, url: str, only: Silenced | None = None) -> int:
        mail = {"recipients": ["platform@example.com"], "sender": "tailwright@example.com"}
        wanted = DestinationCreate(name=name, kind=kind, url=url, only=only, **mail)
        with self.database.session() as session:
            return alerts.create_destination(session, wanted, keyring_of(self.database), actor="t", now=NOW).id

    def token(self, owner: str, **wanted: Any) -> int:
        with self.database.session() as session:
            asked = TokenCreate(name="ci", scope=Scope.OPERATE, owner=owner, **wanted)
            return store.create(session, asked, actor="eve", now=self.now).id

    def letters(self) -> list[DeliveryRow]:
        with self.database.session() as session:
            return list(session.exec(select(DeliveryRow)))


@pytest.fixture
def world(database: Database, authority: trustme.CA) -> Iterator[World]:
    trust = ssl.create_default_context()
    authority.configure_trust(trust)
    found = World(database, trust)
    yield found
    found.deliverer.close()


def by_mail(world: World, mail: MailServer, only: Silenced | None = None) -> int:
    return world.add("mail", DestinationKind.EMAIL, f"smtp://localhost:{mail.port}", only)


def test_a_tokens_owner_is_told_of_its_end_two_weeks_before(world: World, mail: MailServer) -> None:
    by_mail(world, mail)
    number = world.token("ada@example.com", expires_at=NOW + timedelta(days=90))
    world.at(NOW + timedelta(days=75, hours=23))
    ends = [one for one in mail.got if "ends soon" in one.message["Subject"]]
    assert ends == []
    world.at(NOW + timedelta(days=76))
    world.at(NOW + timedelta(days=77))
    ends = [one for one in mail.got if "ends soon" in one.message["Subject"]]
    assert [one.recipients for one in ends] == [["ada@example.com"]]
    said = ends[0].message.get_content()
    assert "Token 'ci' ends on 2030-04-01; make another before: tailwright tokens create." in said
    assert f"token/{number}" in said and "http://t/ledger?subject=token/" in said


def test_a_token_of_a_week_is_told_of_in_the_middle_of_it(world: World, mail: MailServer) -> None:
    by_mail(world, mail)
    world.token("ada@example.com", expires_at=NOW + timedelta(days=6))
    world.at(NOW + timedelta(days=2))
    assert not any("ends soon" in one.message["Subject"] for one in mail.got)
    world.at(NOW + timedelta(days=3))
    assert sum("ends soon" in one.message["Subject"] for one in mail.got) == 1


def test_of_a_token_that_has_ended_or_lasts_nobody_is_told(world: World, mail: MailServer) -> None:
    by_mail(world, mail)
    revoked = world.token("ada@example.com", expires_at=NOW + timedelta(days=20))
    world.token("ada@example.com", never_expires=True)
    with world.database.session() as session:
        store.revoke(session, revoked, actor="eve", now=NOW)
        store.issue(session, name="n", scope=Scope.AGENT, now=NOW, node="n", expires_at=NOW + timedelta(days=20))
    world.at(NOW + timedelta(days=19))
    world.at(NOW + timedelta(days=21))
    assert not any("ends soon" in one.message["Subject"] for one in mail.got)


def test_a_destination_that_wants_notices_gets_them_and_no_other(world: World, mail: MailServer, receiver: Any) -> None:
    world.add("all", DestinationKind.WEBHOOK, receiver.url)
    world.add("pages", DestinationKind.WEBHOOK, receiver.url, Silenced(matchers={"severity": "ticket"}))
    world.add("pager", DestinationKind.ALERTMANAGER, receiver.url, NOTICES)
    wants = world.add("notices", DestinationKind.WEBHOOK, receiver.url, NOTICES)
    world.token("team-search", expires_at=NOW + timedelta(days=20))
    world.at(NOW + timedelta(days=15))
    assert {one.destination_id for one in world.letters()} == {wants}
    said = [json.loads(body) for _, body in receiver.got]
    told = next(one for one in said if one["commonLabels"]["event"] == "token.ends_soon")
    assert told["receiver"] == "notices"
    assert told["alerts"][0]["generatorURL"].startswith("http://t/ledger?subject=token/")
    # No address, no mail: only who asked is told.
    assert mail.got == []


def test_who_is_among_the_recipients_gets_one_letter(world: World, mail: MailServer) -> None:
    by_mail(world, mail, NOTICES)
    world.token("platform@example.com", expires_at=NOW + timedelta(days=20))
    world.at(NOW + timedelta(days=15))
    ends = [one for one in mail.got if "ends soon" in one.message["Subject"]]
    assert [one.recipients for one in ends] == [["platform@example.com"]]


def test_a_mail_server_that_is_away_gets_it_later(world: World, mail: MailServer) -> None:
    by_mail(world, mail)
    world.token("ada@example.com", expires_at=NOW + timedelta(days=20))
    mail.refuses["MAIL"] = "451 later"
    world.at(NOW + timedelta(days=15))
    assert mail.got == [] and {one.state for one in world.letters()} == {"waiting"}
    mail.refuses.clear()
    world.at(NOW + timedelta(days=15, minutes=10))
    assert {one.state for one in world.letters()} == {"delivered"}
    assert sum("ends soon" in one.message["Subject"] for one in mail.got) == 1


def test_who_owns_a_token_is_told_that_it_was_made_and_revoked(world: World, mail: MailServer) -> None:
    by_mail(world, mail)
    number = world.token("ada@example.com")
    world.at(NOW)
    with world.database.session() as session:
        store.revoke(session, number, actor="mallory", now=NOW)
    world.at(NOW)
    assert [one.message["Subject"] for one in mail.got] == [
        "Tailwright: A token was made",
        "Tailwright: A token was revoked",
    ]
    assert all(one.recipients == ["ada@example.com"] and one.encrypted for one in mail.got)
    made, revoked = (one.message.get_content() for one in mail.got)
    assert "Token 'ci' with scope operate." in made and "by eve" in made and "tailwright_" not in made
    assert "Token 'ci' revoked." in revoked and "by mallory" in revoked


def test_who_may_not_sign_in_any_more_and_whose_session_was_ended_is_told(
    world: World, mail: MailServer, receiver: Any
) -> None:
    by_mail(world, mail)
    world.add("notices", DestinationKind.WEBHOOK, receiver.url, NOTICES)
    who = known_people.Somebody("https://issuer.example", "u1", "ada@example.com")
    keyring = keyring_of(world.database)
    with world.database.session() as session:
        person = known_people.signed_in(session, keyring, who, Role.ADMIN, NOW)
        ledger.append(session, NOW, "eve", "session.ended", f"person/{person.id}", "session 7 of Ada was ended")
        known_people.shut_out(session, keyring, who, NOW)
    world.at(NOW)
    assert [(one.message["Subject"], one.recipients) for one in mail.got] == [
        ("Tailwright: A session was ended", ["ada@example.com"]),
        ("Tailwright: Somebody was shut out", ["ada@example.com"]),
    ]
    assert sorted(json.loads(body)["commonLabels"]["event"] for _, body in receiver.got) == [
        "person.shut_out",
        "session.ended",
    ]


def test_a_start_with_other_settings_of_signing_in_is_told(world: World, receiver: Any) -> None:
    world.add("notices", DestinationKind.WEBHOOK, receiver.url, NOTICES)
    for settings in (
        SignInSettings(),
        SignInSettings(token_sign_in=False, oidc_client_secret_file=Path("/a")),
        SignInSettings(token_sign_in=False, oidc_client_secret_file=Path("/b")),
        SignInSettings(token_sign_in=False, oidc_admin_groups=("platform",)),
    ):
        with world.database.session() as session:
            sign_in_record.keep(session, settings, NOW)
        world.at(NOW)
    assert sorted(json.loads(body)["tailwright"]["summary"] for _, body in receiver.got) == [
        "how people sign in has changed: oidc_admin_groups",
        "how people sign in has changed: token_sign_in",
    ]


def test_two_replicas_tell_once(world: World, mail: MailServer) -> None:
    by_mail(world, mail)
    other = AccountNotices(world.database, "http://t")
    world.token("ada@example.com", expires_at=NOW + timedelta(days=20))
    other.tick(NOW)
    world.at(NOW + timedelta(days=15))
    other.tick(NOW + timedelta(days=15))
    assert len({one.fingerprint for one in world.letters()}) == len(world.letters())
    assert sum("ends soon" in one.message["Subject"] for one in mail.got) == 1


def test_old_letters_go_and_those_that_wait_stay(world: World, mail: MailServer) -> None:
    by_mail(world, mail)
    world.token("ada@example.com", expires_at=NOW + timedelta(days=20))
    mail.refuses["MAIL"] = "451 later"
    world.at(NOW + timedelta(days=15))
    late = NOW + timedelta(days=200)
    with world.database.session() as session:
        assert _remove(session, late) == (0, 0)
    mail.refuses.clear()
    world.at(NOW + timedelta(days=15, minutes=10))
    with world.database.session() as session:
        assert _remove(session, NOW + timedelta(days=15)) == (0, 0)
        assert _remove(session, late)[1] >= 1
    assert world.letters() == []
