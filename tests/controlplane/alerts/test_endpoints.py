"""The API: what it takes, what it refuses and how, and who may."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse
from fastapi.testclient import TestClient
from sqlmodel import select

from controlplane.alerts.dry_run.dry_run_desk import DryRunDesk
from controlplane.alerts.endpoints import AlertParts, router
from controlplane.alerts.notify import destination_fields, outbox
from controlplane.alerts.tables import AlertRow, DeliveryRow, DestinationRow
from controlplane.alerts.view import alert_view
from controlplane.app.remedies import check_remedy
from controlplane.auth import store as tokens
from controlplane.auth.token_cache import TokenCache
from controlplane.contract.bodies.access import Scope
from controlplane.contract.errors import TailwrightError
from controlplane.contract.retention_defaults import LEVELS_S
from controlplane.db import Database
from controlplane.ledger import entries
from controlplane.outgoing import ANYWHERE
from tests.alerts_made import alert_made
from tests.controlplane.telemetry.fake_reader import FakeReader
from tests.keyrings import keyring_of

NOW = datetime(2030, 1, 1, 12, tzinfo=UTC)


@pytest.fixture
def clients(database: Database) -> Iterator[dict[str, TestClient]]:
    app = FastAPI()
    app.include_router(router)
    app.state.service = AlertParts(
        database=database,
        clock=lambda: NOW,
        tokens=TokenCache(database),
        keyring=keyring_of(database),
        public_url="https://tailwright.example",
        check_remedy=check_remedy,
        dry_runs=DryRunDesk(database, FakeReader(), LEVELS_S),
        outgoing=ANYWHERE,
    )

    @app.exception_handler(TailwrightError)
    def answer(_: Request, error: TailwrightError) -> JSONResponse:
        return JSONResponse(error.body(), status_code=error.status)

    made = {}
    for scope in (Scope.READ, Scope.OPERATE, Scope.ADMIN):
        with database.session() as session:
            _, token = tokens.issue(session, name=scope.value, scope=scope, now=NOW)
        made[scope.value] = TestClient(app, headers={"Authorization": f"Bearer {token}"})
    yield made


def rule(**condition: Any) -> dict[str, Any]:
    return {"name": "r", "condition": {"kind": "regression", **condition}}


def test_rules_come_and_go(clients: dict[str, TestClient], database: Database) -> None:
    operate = clients["operate"]
    made = operate.post("/api/v1/alert-rules", json={**rule(), "pool": "main", "severity": "ticket"})
    assert made.status_code == 201 and made.json()["condition"]["metrics"] == []
    changed = operate.put(f"/api/v1/alert-rules/{made.json()['id']}", json={**rule(tolerance=0.1), "name": "s"})
    assert changed.json()["name"] == "s" and changed.json()["condition"]["tolerance"] == 0.1
    assert [item["name"] for item in clients["read"].get("/api/v1/alert-rules").json()["items"]] == ["s"]
    assert operate.delete(f"/api/v1/alert-rules/{made.json()['id']}").status_code == 204
    missing = operate.put("/api/v1/alert-rules/999", json=rule())
    assert missing.status_code == 404 and missing.json()["error"]["detail"]["field"] == "rule_id"
    with database.session() as session:
        kinds = [entry.kind for entry in entries(session, before_id=None, limit=9, kind="alert_rule")]
    assert kinds == ["alert_rule.deleted", "alert_rule.updated", "alert_rule.created"]


@pytest.mark.parametrize(
    ("condition", "field", "says"),
    [
        ({"kind": "regression", "metrics": ["ttff"]}, "condition.metrics[0]", "did you mean 'ttft'?"),
        ({"kind": "regression", "metrics": ["kv_usage"]}, "condition.metrics[0]", "no latency metric"),
        ({"kind": "regression", "metrics": ["ttft", "ttft"]}, "condition.metrics", "twice"),
        ({"kind": "regression", "q": []}, "condition.q", "at least one"),
        ({"kind": "regression", "q": [0.99, 1.0]}, "condition.q[1]", "tail quantile"),
        ({"kind": "absolute"}, "condition.limits", "at least one limit"),
        (
            {"kind": "absolute", "limits": [{"metric": "e3e", "q": 0.9, "limit_s": 1}]},
            "condition.limits[0].metric",
            "did you mean 'e2e'?",
        ),
    ],
)
def test_bad_rules_name_the_field(
    clients: dict[str, TestClient], condition: dict[str, Any], field: str, says: str
) -> None:
    answer = clients["operate"].post("/api/v1/alert-rules", json={"name": "r", "condition": condition})
    error = answer.json()["error"]
    assert answer.status_code == 400 and error["detail"]["field"] == field and says in error["message"]


@pytest.mark.parametrize("profile", ["chat", "code_completion", "agent", "batch"])
def test_a_profile_is_enough(clients: dict[str, TestClient], profile: str) -> None:
    body = {"name": "r", "condition": {"kind": "absolute", "profile": profile}}
    assert clients["operate"].post("/api/v1/alert-rules", json=body).status_code == 201


def test_destinations_never_show_their_secret(clients: dict[str, TestClient]) -> None:
    wanted = {"name": "pager", "url": "https://example.test/hook?key=abc", "secret": "top-secret-1"}
    made = clients["admin"].post("/api/v1/destinations", json=wanted)
    assert made.status_code == 201 and made.json()["signed"] is True
    shown = clients["read"].get("/api/v1/destinations").text
    assert "top-secret-1" not in made.text + shown and '"signed":true' in shown
    for broken in ("http://[broken/", "https://"):
        refused = clients["admin"].post("/api/v1/destinations", json={**wanted, "url": broken})
        assert refused.status_code == 400 and refused.json()["error"]["detail"]["field"] == "url"
    short = clients["admin"].post("/api/v1/destinations", json={**wanted, "secret": ""})
    assert short.status_code == 400 and short.json()["error"]["detail"]["field"] == "secret"
    assert clients["admin"].delete(f"/api/v1/destinations/{made.json()['id']}").status_code == 204
    assert clients["admin"].delete(f"/api/v1/destinations/{made.json()['id']}").status_code == 404


def test_a_destination_is_changed_and_keeps_its_secret(clients: dict[str, TestClient], database: Database) -> None:
    admin = clients["admin"]
    there = {"name": "pager", "url": "https://example.test/hook?key=abc", "secret": "top-secret-1"}
    made = admin.post("/api/v1/destinations", json=there).json()
    path, kept = f"/api/v1/destinations/{made['id']}", {"url_kept": True, "secret_kept": True}
    only = {"matchers": {"severity": "page"}, "patterns": {}}
    changed = admin.put(path, json={"name": "pages", "only": only, **kept})
    assert changed.status_code == 200, changed.text
    assert changed.json() == {**made, "name": "pages", "only": only}
    keyring = keyring_of(database)
    with database.session() as session:
        row = session.get(DestinationRow, made["id"])
        stored = destination_fields.secrets_of(row, keyring) if row else {}
    assert {name: one and one.text for name, one in stored.items()} == {
        **{"url": there["url"], "secret": there["secret"]},
        "callback_secret": None,
    }
    elsewhere = admin.put(path, json={"name": "pages", "url": "https://elsewhere.test/x", "secret_kept": True})
    assert elsewhere.status_code == 400 and elsewhere.json()["error"]["detail"]["field"] == "secret_kept"
    assert admin.put("/api/v1/destinations/999", json={"name": "x", **kept}).status_code == 404
    assert clients["operate"].put(path, json={"name": "x", **kept}).status_code == 403
    unsigned = admin.put(path, json={"name": "pages", "url_kept": True}).json()
    assert unsigned["signed"] is False


MAIL = {"kind": "email", "url": "smtp://m.test", "recipients": ["a@b.test"], "sender": "t@b.test"}


@pytest.mark.parametrize(
    ("wanted", "field"),
    [
        ({"kind": "webhook"}, "url"),
        ({"kind": "webhook", "url": "smtp://m.test"}, "url"),
        ({"kind": "webhook", "url": "http://x.test", "recipients": ["a"]}, "recipients"),
        ({"kind": "webhook", "url": "http://x.test", "callback_secret": "long enough"}, "callback_secret"),
        ({"kind": "pagerduty"}, "secret"),
        ({"kind": "pagerduty", "secret": "a\r\nX-Other: header"}, "secret"),
        ({"kind": "slack_app", "secret": "xoxb-123456"}, "recipients"),
        ({"kind": "slack_app", "secret": "xoxb-123456", "recipients": ["#a", "#b"]}, "recipients"),
        ({"kind": "teams", "url": "https://x.test", "secret": "long enough"}, "secret"),
        ({**MAIL, "url": "https://m.test"}, "url"),
        ({**MAIL, "recipients": []}, "recipients"),
        ({**MAIL, "recipients": ["a@b.test", "nobody"]}, "recipients[1]"),
        ({**MAIL, "recipients": ["a@b.test\r\nBcc: c@d.test"]}, "recipients[0]"),
        ({**MAIL, "sender": None}, "sender"),
        ({**MAIL, "login": "me"}, "login"),
        ({**MAIL, "url": "smtp+plain://m.test", "login": "me", "secret": "password"}, "login"),
    ],
)
def test_what_a_kind_wants_and_has_not(clients: dict[str, TestClient], wanted: dict[str, Any], field: str) -> None:
    answer = clients["admin"].post("/api/v1/destinations", json={"name": "d", **wanted})
    assert answer.status_code == 400 and answer.json()["error"]["detail"]["field"] == field, answer.text


@pytest.mark.parametrize(
    "wanted",
    [
        {"kind": "pagerduty", "secret": "key-of-pagerduty", "callback_secret": "signing-secret"},
        {"kind": "opsgenie", "secret": "key-of-opsgenie"},
        {"kind": "slack_app", "secret": "xoxb-of-slack", "recipients": ["#on-call"]},
        {**MAIL, "login": "me", "secret": "password-of-mail"},
    ],
)
def test_each_kind_can_be_made_and_shows_nothing_secret(clients: dict[str, TestClient], wanted: Any) -> None:
    made = clients["admin"].post("/api/v1/destinations", json={"name": "d", **wanted})
    assert made.status_code == 201, made.text
    shown = made.text + clients["read"].get("/api/v1/destinations").text
    assert wanted["secret"] not in shown and "signing-secret" not in shown
    assert made.json()["acknowledges"] == ("callback_secret" in wanted) and made.json()["per_minute"] > 0


def test_dead_letters_are_listed_and_replayed(clients: dict[str, TestClient], database: Database) -> None:
    made = clients["admin"].post("/api/v1/destinations", json={"name": "d", "url": "http://x.test"}).json()
    letter: dict[str, Any] = {
        "alert_id": 1,
        "status": "firing",
        "idempotency_key": "k",
        "body": "{}",
        "created_at": NOW,
    }
    with database.session() as session:
        for number, state in enumerate(("waiting", "given_up", "delivered")):
            session.add(DeliveryRow(destination_id=made["id"], fingerprint=str(number), state=state, **letter))
        session.add(DeliveryRow(destination_id=99, fingerprint="x", state="given_up", **letter))
    params = {"destination_id": made["id"], "state": "given_up"}
    assert [one["id"] for one in clients["read"].get("/api/v1/deliveries", params=params).json()["items"]] == [2]
    path = f"/api/v1/destinations/{made['id']}/dead-letters:replay"
    assert clients["read"].post(path, json={}).status_code == 403
    assert clients["operate"].post(path, json={"ids": [1, 3]}).json() == {"replayed": 0, "passed_over": 0}
    assert clients["operate"].post(path, json={}).json() == {"replayed": 1, "passed_over": 0}
    health = clients["read"].get("/api/v1/destinations").json()["items"][0]["health"]
    assert (health["waiting"], health["dead"]) == (2, 0)
    assert clients["operate"].post("/api/v1/destinations/98/dead-letters:replay", json={}).status_code == 404


def test_a_destination_s_own_words_are_previewed_and_told(
    clients: dict[str, TestClient], database: Database, receiver: Any
) -> None:
    words = {"title_template": "{{ rule }}!", "text_template": "see {{ link }}"}
    shown = clients["read"].post("/api/v1/destinations:preview", json={**words, "kind": "email"}).json()
    assert shown["title"] == "Latency regression!" and shown["text"] == "see https://tailwright.example/alerts"
    assert json.loads(shown["body"])["subject"] == "Latency regression!"
    assert clients["read"].post("/api/v1/destinations:preview", json={"alert_id": 99}).status_code == 404
    for path in ("/api/v1/destinations:preview", "/api/v1/destinations"):
        wrong = {"name": "d", "url": receiver.url} if path.endswith("s") else {}
        refused = clients["admin"].post(path, json={**wrong, "text_template": "{{ sumary }}"})
        assert refused.status_code == 400 and "did you mean 'summary'?" in refused.json()["error"]["message"]
    made = clients["admin"].post("/api/v1/destinations", json={"name": "d", "url": receiver.url, **words}).json()
    assert clients["admin"].post(f"/api/v1/destinations/{made['id']}/test").json()["state"] == "delivered"
    assert receiver.bodies()[0]["commonAnnotations"]["title"] == "tailwright test!"
    with database.session() as session:  # As if an older release had let it pass.
        session.get_one(DestinationRow, made["id"]).text_template = "{{ 1 / 0 }}"
        session.flush()
        outbox.enqueue_firing(session, alert_made(), NOW, "https://tailwright.example")
    with database.session() as session:
        told = json.loads(session.exec(select(DeliveryRow)).one().body)
    assert "description" not in told["commonAnnotations"] and told["commonAnnotations"]["summary"]
    health = clients["read"].get("/api/v1/destinations").json()["items"][0]["health"]
    assert health["template_failures"] == 1


def test_a_test_at_an_alertmanager_ends_by_itself(clients: dict[str, TestClient], receiver: Any) -> None:
    wanted = {"name": "am", "kind": "alertmanager", "url": receiver.url}
    made = clients["admin"].post("/api/v1/destinations", json=wanted).json()
    assert clients["admin"].post(f"/api/v1/destinations/{made['id']}/test").json()["state"] == "delivered"
    (told,) = receiver.bodies()[0]
    begins, ends = (datetime.fromisoformat(told[name]) for name in ("startsAt", "endsAt"))
    assert ends - begins == timedelta(minutes=5)


def test_a_test_delivery_goes_out_now(clients: dict[str, TestClient], receiver: Any) -> None:
    wanted = {"name": "pager", "url": receiver.url, "secret": "top-secret-1"}
    made = clients["admin"].post("/api/v1/destinations", json=wanted).json()
    answer = clients["admin"].post(f"/api/v1/destinations/{made['id']}/test").json()
    assert answer["state"] == "delivered" and "nothing is wrong" in receiver.bodies()[0]["tailwright"]["summary"]
    assert "Tailwright-Signature" in receiver.got[0][0]
    # The links are a real alert's; the made-up one has no page of its own.
    told = receiver.bodies()[0]
    assert told["externalURL"] == "https://tailwright.example"
    assert told["alerts"][0]["generatorURL"] == "https://tailwright.example/alerts"
    receiver.answers = [500]
    answer = clients["admin"].post(f"/api/v1/destinations/{made['id']}/test").json()
    assert answer["state"] == "given_up" and answer["last_error"] == "answered 500"
    assert clients["admin"].post("/api/v1/destinations/99/test").status_code == 404


def test_what_a_deleted_rule_ends_is_told_with_links(clients: dict[str, TestClient], database: Database) -> None:
    made = clients["operate"].post("/api/v1/alert-rules", json=rule()).json()
    destination = clients["admin"].post("/api/v1/destinations", json={"name": "d", "url": "http://x.test"}).json()
    about: dict[str, Any] = {"fingerprint": "f", "rule": "r", "kind": "regression", "pool": "p", "severity": "page"}
    began = {"started_at": NOW, "breach_since": NOW, "fired_at": NOW}
    with database.session() as session:
        alert = AlertRow(rule_id=made["id"], state="firing", labels={}, summary="s", **about, **began)
        session.add(alert)
        session.flush()
        outbox.enqueue_firing(session, alert_view(alert), NOW, "https://tailwright.example")
    assert clients["operate"].delete(f"/api/v1/alert-rules/{made['id']}").status_code == 204
    with database.session() as session:
        firing, resolved = (json.loads(row.body) for row in session.exec(select(DeliveryRow).order_by("id")))
    assert (firing["receiver"], resolved["status"]) == (destination["name"], "resolved")
    assert resolved["externalURL"] == firing["externalURL"] == "https://tailwright.example"
    assert resolved["alerts"][0]["generatorURL"] == firing["alerts"][0]["generatorURL"]


def test_silences(clients: dict[str, TestClient]) -> None:
    operate, why = clients["operate"], {"comment": "known"}
    past = {"matchers": {"pool": "a"}, "ends_at": "2029-01-01T00:00:00Z", **why}
    naive = {"matchers": {"pool": "a"}, "ends_at": "2031-01-01T00:00:00", **why}
    ends = (NOW + timedelta(hours=1)).isoformat()
    for body, field, says in (
        (past, "ends_at", "is not in the future"),
        (naive, "ends_at", "timezone"),
        ({"ends_at": ends, **why}, "matchers", "give a label and its value"),
        ({"patterns": {"pool": "(a"}, "ends_at": ends, **why}, "patterns.pool", "a `(` without its `)`"),
    ):
        answer = operate.post("/api/v1/silences", json=body)
        assert answer.status_code == 400 and answer.json()["error"]["detail"]["field"] == field
        assert says in answer.json()["error"]["message"]
    assert operate.post("/api/v1/silences", json={"matchers": {"pool": "a"}, "ends_at": ends}).status_code == 422
    body = {"matchers": {"pool": "a"}, "patterns": {"node": "gpu-.*"}, "ends_at": ends, **why}
    made = operate.post("/api/v1/silences", json=body).json()
    assert made["created_by"] == "operate" and made["ended_early_at"] is None
    assert operate.delete(f"/api/v1/silences/{made['id']}").status_code == 204
    shown = clients["read"].get("/api/v1/silences").json()["items"][0]
    assert shown["ended_early_at"] is not None and shown["patterns"] == {"node": "gpu-.*"}


def test_inhibit_rules_come_and_go(clients: dict[str, TestClient]) -> None:
    operate = clients["operate"]
    sides = {"source": {"matchers": {"severity": "page"}}, "target": {"patterns": {"severity": "tick.*"}}}
    made = operate.post("/api/v1/inhibit-rules", json={"name": "r", **sides})
    assert made.status_code == 201 and made.json()["equal"] == ["pool"]
    assert clients["read"].get("/api/v1/inhibit-rules").json()["items"] == [made.json()]
    for wrong, field in (
        ({"source": {}}, "source.matchers"),
        ({"target": {"patterns": {"a": "("}}}, "target.patterns.a"),
    ):
        answer = operate.post("/api/v1/inhibit-rules", json={"name": "r", **sides, **wrong})
        assert answer.status_code == 400 and answer.json()["error"]["detail"]["field"] == field
    wider = {"name": "s", **sides, "equal": []}
    assert operate.put("/api/v1/inhibit-rules/1", json=wider).json() == {**made.json(), "name": "s", "equal": []}
    assert operate.put("/api/v1/inhibit-rules/1", json={**wider, "source": {}}).status_code == 400
    assert operate.put("/api/v1/inhibit-rules/9", json=wider).status_code == 404
    assert operate.delete("/api/v1/inhibit-rules/1").status_code == 204
    assert operate.delete("/api/v1/inhibit-rules/1").status_code == 404


def test_a_silence_is_previewed_and_nothing_is_made(clients: dict[str, TestClient], database: Database) -> None:
    with database.session() as session:
        for pool, state in (
            ("chat-eu", "firing"),
            ("chat-us", "pending"),
            ("chat-us", "resolved"),
            ("batch", "firing"),
        ):
            session.add(
                AlertRow(
                    fingerprint=f"{pool}{state}",
                    rule_id=1,
                    rule="r",
                    kind="regression",
                    pool=pool,
                    state=state,
                    severity="page",
                    labels={"pool": pool},
                    summary="s",
                    started_at=NOW,
                    breach_since=NOW,
                )
            )
    read = clients["read"]

    def held(**body: Any) -> list[tuple[str, str]]:
        items = read.post("/api/v1/silences:preview", json=body).json()["items"]
        return [(one["labels"]["pool"], one["state"]) for one in items]

    assert held(patterns={"pool": "chat-.*"}) == [("chat-us", "pending"), ("chat-eu", "firing")]
    assert held(patterns={"pool": "chat-.*"}, matchers={"severity": "ticket"}) == []
    assert held(matchers={"rule": "r"}, patterns={"pool": "b.*"}) == [("batch", "firing")]
    assert read.post("/api/v1/silences:preview", json={}).status_code == 400
    assert read.get("/api/v1/silences").json()["items"] == []


def test_an_alert_is_silenced_by_a_silence_made_after_it_fired(
    clients: dict[str, TestClient], database: Database
) -> None:
    about: dict[str, Any] = {"fingerprint": "f", "rule_id": 1, "rule": "r", "kind": "regression", "severity": "page"}
    began: dict[str, Any] = {"started_at": NOW, "breach_since": NOW, "fired_at": NOW, "summary": "s"}
    with database.session() as session:
        for pool, state in (("a", "firing"), ("a", "resolved"), ("b", "firing")):
            session.add(AlertRow(pool=pool, labels={"pool": pool}, state=state, **about, **began))

    def told() -> dict[tuple[str, str], bool]:
        found = clients["read"].get("/api/v1/alerts").json()["items"]
        again = [clients["read"].get(f"/api/v1/alerts/{one['id']}").json() for one in found]
        assert [one["silenced"] for one in again] == [one["silenced"] for one in found]
        return {(one["labels"]["pool"], one["state"]): one["silenced"] for one in found}

    assert set(told().values()) == {False}
    ends = (NOW + timedelta(hours=1)).isoformat()
    wanted = {"matchers": {"pool": "a", "severity": "page"}, "ends_at": ends, "comment": "known"}
    silence = clients["operate"].post("/api/v1/silences", json=wanted).json()
    assert told() == {("a", "firing"): True, ("a", "resolved"): False, ("b", "firing"): False}
    clients["operate"].delete(f"/api/v1/silences/{silence['id']}")
    assert set(told().values()) == {False}
    with database.session() as session:  # It was told already: no silence's end has anything to bring.
        assert not any(row.silenced for row in session.exec(select(AlertRow)))


def test_scopes(clients: dict[str, TestClient]) -> None:
    read, operate = clients["read"], clients["operate"]
    ends = (NOW + timedelta(hours=1)).isoformat()
    assert read.post("/api/v1/alert-rules", json=rule()).status_code == 403
    assert read.post("/api/v1/silences", json={"matchers": {"a": "b"}, "ends_at": ends}).status_code == 403
    assert operate.post("/api/v1/destinations", json={"name": "d", "url": "http://x"}).status_code == 403
    assert operate.post("/api/v1/destinations/1/test").status_code == 403
    for path in ("alert-rules", "alerts", "destinations", "deliveries", "silences"):
        assert read.get(f"/api/v1/{path}").json() == {"items": [], "next": None}


def test_alerts_and_deliveries_page(clients: dict[str, TestClient], database: Database) -> None:
    with database.session() as session:
        for place in range(5):
            row = AlertRow(
                fingerprint="f",
                rule_id=1,
                rule="r",
                kind="absolute",
                pool="p",
                state="firing" if place % 2 else "resolved",
                severity="page",
                labels={},
                summary="s",
                started_at=NOW,
                breach_since=NOW,
            )
            session.add(row)
            session.add(
                DeliveryRow(
                    alert_id=place + 1,
                    destination_id=1,
                    status="firing",
                    state="waiting",
                    idempotency_key="k",
                    body="{}",
                    created_at=NOW,
                )
            )
    read = clients["read"]
    first = read.get("/api/v1/alerts", params={"limit": 2}).json()
    assert [item["id"] for item in first["items"]] == [5, 4] and first["next"] == "4"
    rest = read.get("/api/v1/alerts", params={"cursor": first["next"]}).json()
    assert [item["id"] for item in rest["items"]] == [3, 2, 1] and rest["next"] is None
    assert [item["id"] for item in read.get("/api/v1/alerts", params={"state": "firing"}).json()["items"]] == [4, 2]
    assert read.get("/api/v1/alerts/3").json()["state"] == "resolved"
    assert read.get("/api/v1/alerts/99").status_code == 404
    assert len(read.get("/api/v1/deliveries", params={"alert_id": 2}).json()["items"]) == 1


def test_a_rule_is_tried_before_it_is_made_and_nothing_is_kept(clients: dict[str, TestClient]) -> None:
    wanted = {"rule": rule(), "window_s": 3600}
    assert clients["read"].post("/api/v1/alert-rules:dry-run", json=wanted).status_code == 403
    found = clients["operate"].post("/api/v1/alert-rules:dry-run", json=wanted).json()
    assert (found["fired"], found["times"], found["pools"]) == (0, [], [])
    assert found["notes"][0] == "no pool had any traffic in that time"
    assert clients["read"].get("/api/v1/alert-rules").json()["items"] == []


def test_a_rule_on_what_is_not_kept_by_time_cannot_be_tried(clients: dict[str, TestClient]) -> None:
    wanted = {"rule": {"name": "r", "condition": {"kind": "drift"}}}
    answer = clients["operate"].post("/api/v1/alert-rules:dry-run", json=wanted)
    assert answer.status_code == 400 and answer.json()["error"]["detail"]["field"] == "rule.condition.kind"


def test_a_rule_that_could_not_be_made_is_not_tried(clients: dict[str, TestClient]) -> None:
    study = {"pool": "chat", "constraints": [{"metric": "warmth", "q": 0.9, "limit_s": 1}]}
    wanted = {"rule": {**rule(), "remedy": {"study": study}}, "window_s": 3600}
    answer = clients["operate"].post("/api/v1/alert-rules:dry-run", json=wanted)
    assert answer.status_code == 400
    assert answer.json()["error"]["detail"]["field"] == "remedy.study.constraints[0].metric"


@pytest.mark.parametrize("number", [0, -3, 2**31, 10**30])
def test_what_is_no_number_of_a_dead_letter_is_refused_by_name(clients: dict[str, TestClient], number: int) -> None:
    path = "/api/v1/destinations/1/dead-letters:replay"
    answer = clients["operate"].post(path, json={"ids": [5, number]})
    assert answer.status_code == 422 and answer.json()["detail"][0]["loc"] == ["body", "ids", 1]


def test_the_catalogue_is_there_to_be_read(clients: dict[str, TestClient]) -> None:
    items = clients["read"].get("/api/v1/symptoms").json()["items"]
    (one,) = [item for item in items if item["id"] == "kv_near_full"]
    assert one["limit"] == 0.95 and "kv_usage" in one["judged_by"] and one["remedy"]
