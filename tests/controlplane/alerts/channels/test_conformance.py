"""What every kind of destination must do (the invariants of `Channel`), against a real server of its protocol."""

import json
import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from email.message import Message
from typing import Any

import pytest
import trustme

from controlplane.alerts.channels import payload
from controlplane.alerts.channels.channel import Address, Letter, MailRequest, Notification, Outcome, Status
from controlplane.alerts.channels.registry import CHANNELS
from controlplane.alerts.notify import one_attempt
from controlplane.alerts.notify.one_attempt import Attempt, Carriers, attempt
from controlplane.contract.bodies.alerts import Alert, AlertState
from controlplane.contract.channels.destination_kinds import DESTINATION_KINDS, DestinationKind
from controlplane.outgoing import ANYWHERE, Answer, new_client
from tests.alerts_made import NOW, alert_made, ugly_alert
from tests.mail_server import MailServer

SECRET = "s3cret-of-the-destination"
KINDS = list(DestinationKind)
HTTP = [kind for kind in KINDS if kind is not DestinationKind.EMAIL]


def told(alert: Alert, status: Status = Status.FIRING, **more: Any) -> Notification:
    return Notification(
        alert, status, "on-call", "https://tailwright.example", NOW, recipients=("a@b.test",), sender="t@b.test", **more
    )


def letter_of(kind: DestinationKind, notification: Notification) -> Letter:
    alert, status = notification.alert, notification.status
    body = CHANNELS[kind].render(notification)
    return Letter(1, kind, status, alert.fingerprint, body, payload.idempotency_key(alert, status.value))


@dataclass
class World:
    """A server of the kind's protocol, and how to send there."""

    kind: DestinationKind
    url: str
    carriers: Carriers
    got: Any
    slack_says: Any = None

    def send(self, notification: Notification) -> Attempt:
        return attempt(self.carriers, letter_of(self.kind, notification), Address(self.url, SECRET, self.login), NOW)

    @property
    def login(self) -> str | None:
        return "sender" if self.kind is DestinationKind.EMAIL else None


@pytest.fixture
def trust(authority: trustme.CA) -> ssl.SSLContext:
    made = ssl.create_default_context()
    authority.configure_trust(made)
    return made


@pytest.fixture(params=KINDS)
def world(request: pytest.FixtureRequest, receiver: Any, mail: MailServer, trust: ssl.SSLContext) -> Iterator[World]:
    kind: DestinationKind = request.param
    carriers = Carriers(new_client(5.0, ANYWHERE), ANYWHERE, trust)
    receiver.body = b'{"ok": true}'
    if kind is DestinationKind.EMAIL:
        yield World(kind, f"smtp://localhost:{mail.port}", carriers, mail.got)
    else:
        yield World(kind, receiver.url, carriers, receiver.got)
    carriers.close()


def test_each_kind_is_spoken_and_described() -> None:
    assert set(CHANNELS) == set(DestinationKind) == set(DESTINATION_KINDS)
    assert all(CHANNELS[kind].kind is kind for kind in CHANNELS)


@pytest.mark.parametrize("made", [alert_made, ugly_alert])
def test_whatever_an_alert_says_arrives(world: World, made: Any) -> None:
    statuses = CHANNELS[world.kind].tells
    alert = made()
    for status in statuses:
        over = {"state": AlertState.RESOLVED, "resolved_at": NOW + timedelta(seconds=60)}
        shown = alert.model_copy(update=over) if status is Status.RESOLVED else alert
        assert world.send(told(shown, status, by="Ada" if status is Status.ACKNOWLEDGED else None)) == Attempt()
    assert len(world.got) == len(statuses)
    for one in world.got:
        if isinstance(one, tuple):
            json.loads(one[1])
            assert len(one[1]) < 512 << 10 or world.kind is DestinationKind.WEBHOOK
        else:
            assert one.recipients == ["a@b.test"] and one.encrypted and one.login == f"sender:{SECRET}"
            assert one.message["Bcc"] is None


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_kept_is_the_same_each_time_and_holds_no_secret(kind: DestinationKind) -> None:
    first, second = (CHANNELS[kind].render(told(alert_made())) for _ in range(2))
    assert first == second and SECRET not in first
    address = Address("https://there.test/x", SECRET) if kind in HTTP else Address("smtp://there.test", SECRET)
    requests = [CHANNELS[kind].request(letter_of(kind, told(alert_made())), address, NOW) for _ in range(2)]
    assert requests[0] == requests[1]
    assert SECRET not in repr(requests[0]) and "there.test/x" not in repr(requests[0])


@pytest.mark.parametrize("kind", KINDS)
def test_all_letters_of_an_alert_name_it_alike(kind: DestinationKind) -> None:
    channel, alert = CHANNELS[kind], alert_made()
    later = alert.model_copy(update={"summary": "worse", "value": 3.0})
    for one in (told(alert), told(later), told(alert, Status.RESOLVED)):
        letter = letter_of(kind, one)
        address = Address("https://there.test/x" if kind in HTTP else "smtp://there.test", SECRET)
        request = channel.request(letter, address, NOW)
        sent = request.message if isinstance(request, MailRequest) else request.content + request.url.encode()
        named = alert.fingerprint.encode() in sent
        assert named or kind in (DestinationKind.SLACK, DestinationKind.SLACK_APP, DestinationKind.TEAMS)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("status", [401, 403, 404, 408, 421, 429, 451, 500, 502, 503])
def test_what_may_be_mended_over_there_is_tried_again(kind: DestinationKind, status: int) -> None:
    if kind is DestinationKind.EMAIL and status >= 500:
        status = 450
    assert CHANNELS[kind].answered(Answer(status, {})).outcome is Outcome.RETRY


@pytest.mark.parametrize("kind", HTTP)
def test_errors_say_the_status_and_nothing_secret(
    kind: DestinationKind, receiver: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    receiver.answers = [(503, {"Retry-After": "30"})]
    with new_client(5.0, ANYWHERE) as http:
        carriers = Carriers(http, ANYWHERE)
        came = attempt(carriers, letter_of(kind, told(alert_made())), Address(receiver.url, SECRET), NOW)
        assert came == Attempt(Outcome.RETRY, "answered 503", 30.0)
        refused = attempt(carriers, letter_of(kind, told(alert_made())), Address(f"http://127.0.0.1:9/{SECRET}"), NOW)
    assert refused.outcome is Outcome.RETRY and SECRET not in (refused.error or "")


# -- a kind's own ------------------------------------------------------------------------------------------------------


def body_of(kind: DestinationKind, notification: Notification) -> Any:
    return json.loads(CHANNELS[kind].render(notification))


def test_pagerduty_opens_acknowledges_and_closes_under_one_key() -> None:
    bodies = [body_of(DestinationKind.PAGERDUTY, told(alert_made(), status)) for status in Status]
    assert [body["event_action"] for body in bodies] == ["trigger", "acknowledge", "resolve"]
    assert {body["dedup_key"] for body in bodies} == {"f" * 16}
    shown = bodies[0]["payload"]
    assert (shown["severity"], shown["source"], shown["group"]) == ("critical", "gpu-1", "main")
    assert len(body_of(DestinationKind.PAGERDUTY, told(ugly_alert()))["payload"]["summary"]) <= 1024
    letter = letter_of(DestinationKind.PAGERDUTY, told(alert_made()))
    sent = CHANNELS[letter.kind].request(letter, Address("https://x.test", SECRET), NOW)
    assert not isinstance(sent, MailRequest) and json.loads(sent.content)["routing_key"] == SECRET


def test_opsgenie_closes_by_alias() -> None:
    channel = CHANNELS[DestinationKind.OPSGENIE]
    address = Address("https://api.opsgenie.com/v2/alerts", SECRET)
    urls = []
    for status in Status:
        request = channel.request(letter_of(DestinationKind.OPSGENIE, told(alert_made(), status)), address, NOW)
        assert not isinstance(request, MailRequest)
        urls.append(request.url)
        assert request.headers["Authorization"] == f"GenieKey {SECRET}"
    named = f"{address.url}/{'f' * 16}"
    assert urls == [
        address.url,
        f"{named}/acknowledge?identifierType=alias",
        f"{named}/close?identifierType=alias",
    ]
    made = body_of(DestinationKind.OPSGENIE, told(ugly_alert()))
    assert made["alias"] == "f" * 16 and len(made["message"]) <= 130 and len(made["description"]) <= 15_000


def test_slack_shows_what_an_alert_says_as_text() -> None:
    made = body_of(DestinationKind.SLACK, told(ugly_alert(), acknowledges=True))
    section = made["blocks"][1]["text"]["text"]
    assert "<!channel>" not in section and "&lt;!channel&gt;" in section and len(section) <= 3000
    assert len(made["blocks"][0]["text"]["text"]) <= 150
    button = made["blocks"][-1]["elements"][0]
    assert (button["action_id"], button["value"]) == ("tailwright_acknowledge", "7")
    for other in (told(alert_made()), told(alert_made(), Status.RESOLVED, acknowledges=True)):
        assert all(block["type"] != "actions" for block in body_of(DestinationKind.SLACK, other)["blocks"])


@pytest.mark.parametrize(
    ("body", "outcome"),
    [
        (b'{"ok": true, "ts": "1"}', Outcome.SENT),
        (b'{"ok": false, "error": "ratelimited"}', Outcome.RETRY),
        (b'{"ok": false, "error": "channel_not_found"}', Outcome.RETRY),
        (b'{"ok": false, "error": "invalid_blocks"}', Outcome.REFUSED),
        (b'{"ok": false, "error": "<b>what</b>"}', Outcome.RETRY),
        (b"<html>", Outcome.RETRY),
        (b"[]", Outcome.RETRY),
    ],
)
def test_slack_s_yes_stands_in_its_body(body: bytes, outcome: Outcome) -> None:
    verdict = CHANNELS[DestinationKind.SLACK_APP].answered(Answer(200, {}, body))
    assert verdict.outcome is outcome and "<b>" not in (verdict.error or "")


def test_teams_gets_a_card_that_fits() -> None:
    made = CHANNELS[DestinationKind.TEAMS].render(told(ugly_alert()))
    assert len(made.encode()) <= 28 << 10
    card = json.loads(made)["attachments"][0]["content"]
    assert card["type"] == "AdaptiveCard" and card["actions"][0]["url"] == "https://tailwright.example/alerts/7"
    assert "[a](" not in card["body"][1]["text"]


def test_alertmanager_is_told_an_end() -> None:
    (firing,) = body_of(DestinationKind.ALERTMANAGER, told(alert_made()))
    over = alert_made(state=AlertState.RESOLVED, resolved_at=NOW + timedelta(seconds=5))
    (resolved,) = body_of(DestinationKind.ALERTMANAGER, told(over, Status.RESOLVED))
    assert firing["labels"] == resolved["labels"] and firing["startsAt"] == resolved["startsAt"]
    assert firing["endsAt"] > (NOW + timedelta(days=300)).isoformat()
    assert resolved["endsAt"] == (NOW + timedelta(seconds=5)).isoformat()


def mail_of(server: MailServer) -> list[Message]:
    return [one.message for one in server.got]


def test_mail_of_one_alert_is_one_thread(mail: MailServer, trust: ssl.SSLContext) -> None:
    with new_client(5.0, ANYWHERE) as http:
        for status in (Status.FIRING, Status.FIRING, Status.RESOLVED):
            letter = letter_of(DestinationKind.EMAIL, told(alert_made(), status))
            address = Address(f"smtp://localhost:{mail.port}", SECRET, "sender")
            assert attempt(Carriers(http, ANYWHERE, trust), letter, address, NOW) == Attempt()
    first, again, resolved = mail_of(mail)
    assert first["Message-ID"] == again["Message-ID"] != resolved["Message-ID"]
    assert first["References"] == resolved["References"] and first["Subject"] == "Firing: Latency regression (main)"
    assert "max_num_seqs went up" in first.get_content()  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("tls", "scheme", "refuses", "says", "outcome"),
    [
        ("none", "smtp", {}, "MailError: the server offers no STARTTLS", Outcome.RETRY),
        ("starttls", "smtp", {"AUTH": "535 no"}, "answered 535", Outcome.RETRY),
        ("starttls", "smtp", {"DATA": "451 later"}, "answered 451", Outcome.RETRY),
        ("starttls", "smtp", {"DATA": "552 too long"}, "answered 552", Outcome.REFUSED),
        ("starttls", "smtp", {"RCPT": "550 nobody"}, "answered 550", Outcome.RETRY),
        ("tls", "smtps", {}, None, Outcome.SENT),
    ],
)
def test_mail_servers(
    mail: MailServer, trust: ssl.SSLContext, tls: str, scheme: str, refuses: Any, says: str | None, outcome: Outcome
) -> None:
    mail.tls, mail.refuses = tls, refuses
    with new_client(5.0, ANYWHERE) as http:
        letter = letter_of(DestinationKind.EMAIL, told(alert_made()))
        address = Address(f"{scheme}://localhost:{mail.port}", SECRET, "sender")
        came = attempt(Carriers(http, ANYWHERE, trust), letter, address, NOW)
    assert came.outcome is outcome and ((says is None) == (came.error is None))
    assert says is None or (came.error or "").startswith(says)
    assert (len(mail.got) == 1) == (outcome is Outcome.SENT)


def test_a_certificate_that_nobody_vouches_for_gets_no_password(mail: MailServer) -> None:
    with new_client(5.0, ANYWHERE) as http:
        letter = letter_of(DestinationKind.EMAIL, told(alert_made()))
        came = attempt(
            Carriers(http, ANYWHERE), letter, Address(f"smtp://localhost:{mail.port}", SECRET, "sender"), NOW
        )
    assert "CERTIFICATE_VERIFY_FAILED" in (came.error or "") and mail.got == []


@pytest.mark.parametrize("behaviour", ["drips", "floods"])
def test_a_mail_server_that_never_ends_holds_nobody(
    behaviour: str, mail: MailServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(one_attempt, "DEADLINE_S", 0.3)
    mail.behaviour = behaviour
    with new_client(5.0, ANYWHERE) as http:
        letter = letter_of(DestinationKind.EMAIL, told(alert_made()))
        came = attempt(Carriers(http, ANYWHERE), letter, Address(f"smtp://localhost:{mail.port}"), NOW)
    says = "DeadlineExceeded" if behaviour == "drips" else "the server says more than"
    assert came.outcome is Outcome.RETRY and says in (came.error or "")
