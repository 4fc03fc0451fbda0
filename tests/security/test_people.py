"""Tokens, and people who sign in at a real issuer, as somebody who wants in without being somebody would try them."""

import re
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from fastapi.testclient import TestClient
from joserfc import jwt
from joserfc.jwk import ECKey, RSAKey
from starlette.websockets import WebSocketDisconnect

from controlplane.app.service import Service, create_app
from controlplane.app.settings import ServiceSettings
from controlplane.auth import known_people
from controlplane.auth.browser_address import SeenFrom
from controlplane.auth.tables import SignInAttemptRow
from controlplane.client.named_proxy import authorities
from controlplane.contract.bodies.people import ADDRESS_HEADER, VOUCHER_HEADER, Role
from controlplane.contract.clock import utc_now
from controlplane.contract.errors import BadSettings
from tests.oidc_issuer import CLIENT_ID, CLIENT_SECRET, Issuer, issuing, make_key, part


class Attacked:
    """A running service whose clock can be set forward."""

    def __init__(self, folder: Path, **settings: object) -> None:
        self.ahead = timedelta(0)
        chosen = ServiceSettings.model_validate({"data_dir": folder, "log_level": "error", **settings})
        self.app = create_app(chosen, clock=self.now)
        self.admin = {"Authorization": f"Bearer {(folder / 'admin-token').read_text().strip()}"}

    def now(self) -> datetime:
        return utc_now() + self.ahead

    @property
    def service(self) -> Service:
        return Service.of(self.app)


@pytest.fixture
def attacked(tmp_path: Path) -> Attacked:
    return Attacked(tmp_path)


@pytest.fixture
def http(attacked: Attacked) -> Iterator[TestClient]:
    with TestClient(attacked.app) as client:
        yield client


def in_days(days: int) -> str:
    return (utc_now() + timedelta(days=days)).isoformat()


def made(http: TestClient, attacked: Attacked, **wanted: object) -> dict[str, str]:
    """The headers of a new token."""
    answer = http.post("/api/v1/tokens", json={"name": "ci", **wanted}, headers=attacked.admin)
    assert answer.status_code == 201, answer.text
    return {"Authorization": f"Bearer {answer.json()['token']}"}


def counted(http: TestClient, reason: str) -> float:
    found = re.search(rf'tailwright_auth_refused_total{{reason="{reason}"}} (\S+)', http.get("/metrics").text)
    assert found is not None
    return float(found[1])


def test_an_old_token_is_worth_nothing_and_counted_as_expired(http: TestClient, attacked: Attacked) -> None:
    token = made(http, attacked, scope="admin")
    reports = made(http, attacked, scope="agent", expires_at=in_days(90))
    assert http.get("/api/v1/nodes", headers=token).status_code == 200
    attacked.ahead = timedelta(days=90)
    answer = http.get("/api/v1/nodes", headers=token)
    assert answer.status_code == 401 and answer.json()["error"]["code"] == "token_expired"
    assert http.post("/api/v1/sign-in-codes", headers=token).status_code == 401
    assert http.post("/v1/metrics", headers=reports).status_code == 401
    assert attacked.service.turned_away.counts["expired"] == 3  # type: ignore[index]
    assert counted(http, "expired") == 3
    # What the service made for itself is changed by itself.
    own = (attacked.service.settings.data_dir / "dashboard-token").read_text().strip()
    assert http.get("/api/v1/nodes", headers={"Authorization": f"Bearer {own}"}).status_code == 200


def test_an_agent_s_open_socket_ends_with_its_token(http: TestClient, attacked: Attacked) -> None:
    token = made(http, attacked, scope="agent", expires_at=in_days(1))
    with http.websocket_connect("/v1/opamp", headers=token) as socket:
        attacked.ahead = timedelta(days=1)
        with pytest.raises(WebSocketDisconnect) as closed:
            socket.receive_bytes()
    assert closed.value.code == 1001
    assert attacked.service.turned_away.counts["expired"] == 1  # type: ignore[index]


def test_nobody_takes_the_service_s_name_or_an_agent_s(http: TestClient, attacked: Attacked) -> None:
    for name in ("tailwright", "TAILWRIGHT ", "agent gpu-1"):
        answer = http.post("/api/v1/tokens", json={"name": name, "scope": "read"}, headers=attacked.admin)
        assert answer.status_code == 400 and answer.json()["error"]["detail"]["field"] == "name"


class Browser:
    """Signs in at the issuer step by step, so that each step can be spoiled."""

    def __init__(self, http: TestClient) -> None:
        self.http = http

    def begin(self) -> tuple[str, str]:
        """The issuer's page, and the secret that the browser keeps."""
        begun = self.http.post("/api/v1/sign-in/begin")
        assert begun.status_code == 201, begun.text
        return begun.json()["url"], begun.json()["secret"]

    def answer_of_issuer(self, page: str) -> dict[str, str]:
        came = httpx.get(page, follow_redirects=False, verify=authorities(page))
        assert came.status_code == 303, came.text
        return {name: values[0] for name, values in parse_qs(urlsplit(came.headers["Location"]).query).items()}

    def finish(self, secret: str, answer: dict[str, str]) -> httpx.Response:
        return self.http.post("/api/v1/sign-in/finish", json={"secret": secret, **answer})

    def sign_in(self) -> httpx.Response:
        page, secret = self.begin()
        return self.finish(secret, self.answer_of_issuer(page))


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    with issuing() as found:
        yield found


def write_private(path: Path, text: str) -> None:
    path.touch(mode=0o600)
    path.write_text(text)


@pytest.fixture
def of_people(tmp_path: Path, issuer: Issuer) -> Attacked:
    write_private(tmp_path / "client-secret", CLIENT_SECRET + "\n")
    return Attacked(
        tmp_path,
        oidc_issuer=issuer.url,
        oidc_client_id=CLIENT_ID,
        oidc_client_secret_file=tmp_path / "client-secret",
        oidc_viewer_groups="all",
        oidc_operator_groups="ops,oncall",
        oidc_admin_groups="platform",
    )


@pytest.fixture
def people(of_people: Attacked) -> Iterator[TestClient]:
    # Without the lifespan: nothing asks the issuer in the background.
    yield TestClient(of_people.app)
    of_people.service.telemetry.close()
    of_people.service.database.close()


@pytest.fixture
def browser(people: TestClient) -> Browser:
    return Browser(people)


def refused(answer: httpx.Response, told: str, status: int = 401) -> None:
    assert answer.status_code == status, answer.text
    assert told in answer.json()["error"]["message"]
    assert "secret" not in answer.json()


@pytest.mark.parametrize(
    ("groups", "scope"),
    [
        (["all"], "read"),
        (["ops"], "operate"),
        (["oncall", "all"], "operate"),
        (["platform"], "admin"),
        (["all", "platform", "ops"], "admin"),
        ("ops", "operate"),
    ],
)
def test_groups_make_the_role(
    browser: Browser, issuer: Issuer, of_people: Attacked, groups: object, scope: str
) -> None:
    issuer.person["groups"] = groups
    answer = browser.sign_in()
    assert answer.status_code == 201, answer.text
    held = {"Authorization": f"Bearer {answer.json()['secret']}"}
    may = {
        "read": browser.http.get("/api/v1/nodes", headers=held).status_code == 200,
        "operate": browser.http.post("/api/v1/configs", json={"knobs": {"max_num_seqs": 4}}, headers=held).is_success,
        "admin": browser.http.get("/api/v1/tokens", headers=held).status_code == 200,
    }
    order = ["read", "operate", "admin"]
    assert [name for name in order if may[name]] == order[: order.index(scope) + 1]
    # Nothing that outlives a session is made by one.
    assert browser.http.post("/api/v1/tokens", json={"name": "x", "scope": "read"}, headers=held).status_code == 403
    entry = browser.http.get("/api/v1/ledger", params={"limit": 1}, headers=held).json()["items"][0]
    assert entry["actor"] == "ada@example.com" and entry["evidence"]["person_id"] == 1


@pytest.mark.parametrize("groups", [None, [], ["else"], ["Ops"], "opsx"])
def test_who_is_in_no_group_that_counts_is_told_which_do(browser: Browser, issuer: Issuer, groups: object) -> None:
    assert browser.sign_in().status_code == 201
    held = dict(issuer.person)
    issuer.person["groups"] = groups
    refused(browser.sign_in(), "Groups that count are admin: platform; operator: oncall, ops; viewer: all", 403)
    issuer.person = held


def test_who_loses_the_groups_loses_the_open_sessions(browser: Browser, issuer: Issuer) -> None:
    held = {"Authorization": f"Bearer {browser.sign_in().json()['secret']}"}
    assert browser.http.get("/api/v1/nodes", headers=held).status_code == 200
    issuer.person["groups"] = ["all"]
    assert browser.sign_in().status_code == 201
    # The role that was taken away counts at once, in the older session, too.
    assert browser.http.post("/api/v1/configs", json={"knobs": {}}, headers=held).status_code == 403
    issuer.person["groups"] = []
    assert browser.sign_in().status_code == 403
    assert browser.http.get("/api/v1/nodes", headers=held).status_code == 401


@pytest.mark.parametrize(
    ("says", "told"),
    [
        ({"aud": "another"}, "aud"),
        ({"aud": ["another", "third"]}, "aud"),
        ({"aud": ["tailwright", "another"]}, "azp"),
        ({"azp": "another"}, "azp"),
        ({"iss": "https://evil.example"}, "iss"),
        ({"exp": int(utc_now().timestamp()) - 3600}, "expired"),
        ({"iat": int(utc_now().timestamp()) + 3600}, "in the future"),
        ({"nonce": "another"}, "nonce"),
        ({"nonce": None}, "nonce"),
        ({"sub": None}, "sub"),
        ({"sub": ""}, "sub"),
        ({"iss": None}, "iss"),
        ({"aud": None}, "aud"),
        ({"exp": None}, "exp"),
        ({"iat": None}, "iat"),
        ({"exp": "tomorrow"}, "exp"),
        ({"email": None}, "preferred_username"),
        ({"email_verified": False}, "preferred_username"),
        ({"email": "a\u202eb@example.com"}, "printable"),
        ({"groups": {"ops": True}}, "no list of groups"),
        ({"groups": [["ops"]]}, "no list of groups"),
    ],
)
def test_an_id_token_that_says_something_else_is_worth_nothing(
    browser: Browser, issuer: Issuer, of_people: Attacked, says: dict[str, object], told: str
) -> None:
    issuer.says = says
    refused(browser.sign_in(), told)
    assert of_people.service.turned_away.counts["sign_in"] == 1  # type: ignore[index]


def test_an_unverified_address_is_no_name_and_the_user_s_name_is(browser: Browser, issuer: Issuer) -> None:
    issuer.says = {"email_verified": False, "preferred_username": "ada"}
    held = {"Authorization": f"Bearer {browser.sign_in().json()['secret']}"}
    entry = browser.http.get("/api/v1/ledger", params={"kind": "person.signed_in"}, headers=held).json()["items"][0]
    assert entry["actor"] == "ada"


def test_nobody_signs_in_under_the_service_s_name(browser: Browser, issuer: Issuer) -> None:
    issuer.says = {"email": None, "preferred_username": "agent gpu-1"}
    refused(browser.sign_in(), "own name in the ledger", 403)


@pytest.mark.parametrize("trick", ["unsigned", "keyed_with_public_key"])
def test_neither_none_nor_the_public_key_as_a_secret_signs_anything(
    browser: Browser, issuer: Issuer, trick: str
) -> None:
    issuer.sign = getattr(issuer, trick)
    refused(browser.sign_in(), "taken are RS256, PS256, ES256, EdDSA")


def test_another_s_signature_and_a_changed_token_are_refused(browser: Browser, issuer: Issuer) -> None:
    other = make_key("RS256", "first")
    issuer.sign = lambda claims: jwt.encode({"alg": "RS256", "kid": "first"}, claims, other)
    refused(browser.sign_in(), "bad_signature")

    def changed(claims: dict[str, object]) -> str:
        head, _, signature = issuer.signed(claims).split(".")
        return f"{head}.{part({**claims, 'groups': ['platform']})}.{signature}"

    issuer.sign = changed
    refused(browser.sign_in(), "bad_signature")


@pytest.mark.parametrize("algorithm", ["RS256", "PS256", "ES256", "EdDSA"])
def test_keys_may_change_between_two_steps(browser: Browser, issuer: Issuer, algorithm: str) -> None:
    page, secret = browser.begin()
    answer = browser.answer_of_issuer(page)
    issuer.rotate(algorithm)
    assert browser.finish(secret, answer).status_code == 201
    assert (issuer.asked["keys"], issuer.asked["discovery"]) == (2, 2)
    assert browser.sign_in().status_code == 201
    assert issuer.asked["keys"] == 2


def test_an_unknown_key_is_asked_for_once(browser: Browser, issuer: Issuer) -> None:
    published = issuer.published
    issuer.rotate()
    issuer.published = published
    refused(browser.sign_in(), "does not publish")
    assert issuer.asked["keys"] == 2


def test_a_key_of_another_kind_or_too_short_is_none(browser: Browser, issuer: Issuer) -> None:
    issuer.key = RSAKey.generate_key(1024, {"kid": "short", "use": "sig"})
    issuer.published = [issuer.key]
    refused(browser.sign_in(), "does not publish")
    issuer.rotate("ES256", "for-encryption")
    issuer.published = [ECKey.import_key(issuer.key.as_dict(private=False), {"use": "enc"})]
    refused(browser.sign_in(), "does not publish")


def test_an_answer_counts_once_and_in_its_own_browser(browser: Browser, issuer: Issuer) -> None:
    page, secret = browser.begin()
    answer = browser.answer_of_issuer(page)
    _, other = browser.begin()
    refused(browser.finish(other, answer), "another attempt")
    refused(browser.finish("", answer), "has not begun")
    refused(browser.finish(secret, {**answer, "state": answer["state"] + "x"}), "another attempt")
    refused(browser.finish(secret, {**answer, "iss": "https://evil.example"}), "another issuer")
    refused(browser.finish(secret, {name: answer[name] for name in ("state", "code")}), "names nobody")
    assert issuer.asked["token"] == 0
    assert browser.finish(secret, answer).status_code == 201
    refused(browser.finish(secret, answer), "was used already")
    # A code that was stolen from another's answer is bound to that attempt's verifier.
    stolen = browser.answer_of_issuer(browser.begin()[0])["code"]
    page, secret = browser.begin()
    refused(browser.finish(secret, {**browser.answer_of_issuer(page), "code": stolen}), "invalid_grant")


def test_even_an_issuer_that_takes_codes_twice_signs_in_once(browser: Browser, issuer: Issuer) -> None:
    page, secret = browser.begin()
    answer = browser.answer_of_issuer(page)
    asked = dict(issuer.codes[answer["code"]])
    assert browser.finish(secret, answer).status_code == 201
    issuer.codes[answer["code"]] = asked
    refused(browser.finish(secret, answer), "was used already")


def test_an_attempt_ends_and_its_time_cannot_be_moved(browser: Browser, issuer: Issuer, of_people: Attacked) -> None:
    page, secret = browser.begin()
    answer = browser.answer_of_issuer(page)
    of_people.ahead = timedelta(minutes=11)
    refused(browser.finish(secret, answer), "took too long")
    head, when, rest = secret[:19], int(secret[19:29]), secret[29:]
    refused(browser.finish(f"{head}{when + 3600}{rest}", answer), "another attempt")


def test_who_asks_without_pkce_is_not_let_in_by_the_issuer(browser: Browser) -> None:
    page, _ = browser.begin()
    asked = parse_qs(urlsplit(page).query)
    assert asked["code_challenge_method"] == ["S256"] and len(asked["code_challenge"][0]) == 43
    bare = {name: values[0] for name, values in asked.items() if not name.startswith("code_challenge")}
    assert httpx.get(page.partition("?")[0], params=bare).status_code == 400


@pytest.mark.parametrize(
    ("metadata", "told"),
    [
        ({"issuer": "https://evil.example"}, "calls itself"),
        ({"code_challenge_methods_supported": ["plain"]}, "PKCE"),
        ({"token_endpoint": "http://other.example/token"}, "no https address"),
        ({"jwks_uri": "http://169.254.169.254/latest"}, "no https address"),
        ({"jwks_uri": "https://169.254.169.254/latest"}, "link-local"),
        ({"jwks_uri": "https://10.0.0.1/keys"}, "in a private network"),
        ({"authorization_endpoint": None}, "no https address"),
    ],
)
def test_an_issuer_that_leads_elsewhere_is_not_followed(
    browser: Browser, issuer: Issuer, metadata: dict[str, object], told: str
) -> None:
    issuer.metadata = metadata
    answer = browser.http.post("/api/v1/sign-in/begin")
    refused(answer, told, 503)
    # It is not asked again by everybody who comes meanwhile.
    refused(browser.http.post("/api/v1/sign-in/begin"), told, 503)
    assert issuer.asked["discovery"] == 1


def test_nothing_at_rest_signs_anybody_in(browser: Browser, of_people: Attacked) -> None:
    page, secret = browser.begin()
    answer = browser.answer_of_issuer(page)
    session = browser.finish(secret, answer).json()["secret"]
    stored = b"".join(file.read_bytes() for file in of_people.service.settings.data_dir.glob("*.db*"))
    assert b"ada@example.com" in stored
    for text in (secret, answer["code"], answer["state"], session, CLIENT_SECRET):
        assert text.encode() not in stored


def test_a_closed_sign_in_by_token_stays_closed(tmp_path: Path, issuer: Issuer) -> None:
    closed = Attacked(
        tmp_path, oidc_issuer=issuer.url, oidc_client_id="x", oidc_admin_groups="platform", token_sign_in=False
    )
    http = TestClient(closed.app, headers=closed.admin)
    assert http.get("/api/v1/sign-in").json() == {"token": False, "issuer": issuer.url, "end_session_url": None}
    refused(http.post("/api/v1/sign-in-codes"), "not signed in with a token", 403)
    assert http.get("/api/v1/nodes").status_code == 200
    closed.service.telemetry.close()
    closed.service.database.close()


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        ({"token_sign_in": False}, "token_sign_in"),
        ({"oidc_issuer": "http://issuer.example", "oidc_client_id": "x", "oidc_admin_groups": "a"}, "oidc_issuer"),
        ({"oidc_issuer": "https://issuer.example", "oidc_admin_groups": "a"}, "oidc_client_id"),
        ({"oidc_issuer": "https://issuer.example", "oidc_client_id": "x"}, "oidc_viewer_groups"),
        (
            {
                "oidc_issuer": "https://issuer.example",
                "oidc_client_id": "x",
                "oidc_admin_groups": "a",
                "external_url": "http://tailwright.example",
            },
            "external_url",
        ),
        (
            {"oidc_issuer": "https://i.example", "oidc_client_id": "x", "oidc_admin_groups": "a", "oidc_scopes": "a"},
            "oidc_scopes",
        ),
        (
            {
                "oidc_issuer": "https://i.example",
                "oidc_client_id": "x",
                "oidc_admin_groups": "a",
                "oidc_allow": "10.0.0.0/99",
            },
            "oidc_allow",
        ),
        (
            {
                "oidc_issuer": "https://i.example",
                "oidc_client_id": "x",
                "oidc_admin_groups": "a",
                "oidc_client_secret_file": "/nowhere",
            },
            "oidc_client_secret_file",
        ),
    ],
)
def test_settings_that_cannot_work_are_named(tmp_path: Path, settings: dict[str, object], field: str) -> None:
    with pytest.raises(BadSettings) as wrong:
        Attacked(tmp_path, **settings)
    assert wrong.value.detail["field"] == field


def bearer(answer: httpx.Response) -> dict[str, str]:
    assert answer.status_code == 201, answer.text
    return {"Authorization": f"Bearer {answer.json()['secret']}"}


def own_number(http: TestClient, held: dict[str, str]) -> int:
    return int(http.get("/api/v1/sessions/self", headers=held).json()["id"])


def test_everybody_sees_and_ends_the_own_sessions_and_an_admin_all(
    browser: Browser, issuer: Issuer, of_people: Attacked
) -> None:
    http = browser.http
    ada, again = bearer(browser.sign_in()), bearer(browser.sign_in())
    issuer.person = {"sub": "u2", "email": "eve@example.com", "groups": ["all"]}
    eve = bearer(browser.sign_in())
    seen = {item["name"] for item in http.get("/api/v1/sessions", headers=eve).json()["items"]}
    assert seen == {"eve@example.com"}
    assert len(http.get("/api/v1/sessions", headers=ada).json()["items"]) == 2
    # Another's session is none that there is.
    assert http.delete(f"/api/v1/sessions/{own_number(http, ada)}", headers=eve).status_code == 404
    assert http.delete(f"/api/v1/sessions/{own_number(http, again)}", headers=ada).status_code == 204
    assert http.get("/api/v1/nodes", headers=again).status_code == 401
    assert http.get("/api/v1/people", headers=ada).status_code == 403
    assert len(http.get("/api/v1/sessions", headers=of_people.admin).json()["items"]) == 2
    assert http.delete(f"/api/v1/sessions/{own_number(http, eve)}", headers=of_people.admin).status_code == 204
    assert http.get("/api/v1/nodes", headers=eve).status_code == 401
    people = http.get("/api/v1/people", headers=of_people.admin).json()["items"]
    assert [(one["name"], one["role"], one["open_sessions"]) for one in people] == [
        ("eve@example.com", "viewer", 0),
        ("ada@example.com", "operator", 1),
    ]
    ended = http.get("/api/v1/ledger", params={"kind": "session.ended"}, headers=of_people.admin).json()["items"]
    assert [(one["actor"], one["subject"]) for one in ended] == [("admin", "person/2"), ("ada@example.com", "person/1")]


def test_only_this_process_s_dashboard_says_where_a_browser_is(browser: Browser, of_people: Attacked) -> None:
    http, lie = browser.http, {ADDRESS_HEADER: "203.0.113.9"}
    for vouched, shown in (("", "testclient"), ("guess", "testclient"), (of_people.service.voucher, "203.0.113.9")):
        page, secret = browser.begin()
        body = {"secret": secret, **browser.answer_of_issuer(page)}
        held = bearer(http.post("/api/v1/sign-in/finish", json=body, headers={**lie, VOUCHER_HEADER: vouched}))
        assert http.get("/api/v1/sessions/self", headers=held).json()["address"] == shown


@pytest.fixture
def four_eyes(tmp_path: Path, issuer: Issuer) -> Iterator[Attacked]:
    write_private(tmp_path / "client-secret", CLIENT_SECRET)
    attacked = Attacked(
        tmp_path,
        oidc_issuer=issuer.url,
        oidc_client_id=CLIENT_ID,
        oidc_client_secret_file=tmp_path / "client-secret",
        oidc_admin_groups="platform",
        emergency_approval="two",
    )
    http = TestClient(attacked.app, headers=attacked.admin)
    node = {"node": "n1", "pool": "chat", "backend": "embedded"}
    assert http.post("/api/v1/enrol", json=node).status_code == 201
    assert http.post("/api/v1/configs", json={"knobs": {"max_num_seqs": 4}}).is_success
    yield attacked
    attacked.service.telemetry.close()
    attacked.service.database.close()


EMERGENCY = {"pool": "chat", "revision": 1, "emergency": True, "reason": "revision 0 crashes"}


@pytest.mark.slow
def test_an_emergency_wants_two_people(four_eyes: Attacked, issuer: Issuer) -> None:
    browser = Browser(TestClient(four_eyes.app))
    http = browser.http
    issuer.person["groups"] = ["platform"]
    ada, ada_again = bearer(browser.sign_in()), bearer(browser.sign_in())
    issuer.person = {"sub": "u2", "email": "eve@example.com", "groups": ["platform"]}
    eve = bearer(browser.sign_in())
    hers = {"name": "ci", "scope": "admin", "owner": "Ada@example.com"}
    token = http.post("/api/v1/tokens", json=hers, headers=four_eyes.admin).json()["token"]

    proposed = http.post("/api/v1/rollouts", json=EMERGENCY, headers=ada).json()
    assert (proposed["phase"], proposed["needs_approval"], proposed["started_at"]) == ("awaiting_approval", True, None)
    path = f"/api/v1/rollouts/{proposed['id']}"
    refused(http.post(f"{path}/start", headers=ada), "when another admin approves it", 403)
    refused(http.post(f"{path}/start", headers=eve), "when another admin approves it", 403)
    refused(http.post(f"{path}/approve", headers=ada), "you have proposed it yourself", 403)
    refused(http.post(f"{path}/approve", headers=ada_again), "you have proposed it yourself", 403)
    refused(http.post(f"{path}/approve", headers={"Authorization": f"Bearer {token}"}), "by name or owner", 403)
    assert http.get(path, headers=eve).json()["phase"] == "awaiting_approval"

    approved = http.post(f"{path}/approve", headers=eve)
    assert approved.status_code == 200, approved.text
    assert approved.json()["phase"] != "awaiting_approval" and approved.json()["approved_by"] == "eve@example.com"
    refused(http.post(f"{path}/approve", headers=eve), "waits for no approval", 409)
    subject = {"subject": f"rollout/{proposed['id']}"}
    told = {one["kind"]: one for one in http.get("/api/v1/ledger", params=subject, headers=eve).json()["items"]}
    assert told["rollout.created"]["actor"] == "ada@example.com"
    assert told["rollout.approved"]["actor"] == told["rollout.started"]["actor"] == "eve@example.com"
    assert told["rollout.approved"]["evidence"]["proposed_by"] == "ada@example.com"


def test_a_token_neither_approves_itself_nor_by_one_that_it_made(four_eyes: Attacked) -> None:
    http = TestClient(four_eyes.app, headers=four_eyes.admin)
    made = http.post("/api/v1/tokens", json={"name": "two", "scope": "admin", "owner": "two"}).json()["token"]
    path = f"/api/v1/rollouts/{http.post('/api/v1/rollouts', json=EMERGENCY).json()['id']}/approve"
    refused(http.post(path), "this token has proposed it itself", 403)
    refused(http.post(path, headers={"Authorization": f"Bearer {made}"}), "one was made with the other", 403)
    # What is judged wants no approval, and what waits for none takes none.
    weak = http.post("/api/v1/tokens", json={"name": "op", "scope": "operate"}).json()["token"]
    assert http.post(path, headers={"Authorization": f"Bearer {weak}"}).status_code == 403


DEEDS = {
    "see nodes, latency, alerts, configurations, the ledger": ("GET", "/api/v1/nodes", None),
    "ask for a forecast": ("POST", "/api/v1/whatif", {"pool": "nobody"}),
    "rules, silences, studies, judged rollouts": ("POST", "/api/v1/rollouts/999/cancel", None),
    "emergency rollouts": ("POST", "/api/v1/rollouts", EMERGENCY),
    "approve a rollout, set policies, lift a freeze": ("DELETE", "/api/v1/freezes/999", None),
    "freeze and pin pools": ("DELETE", "/api/v1/pins/999", None),
    "webhooks' destinations": ("POST", "/api/v1/destinations", None),
    "hooks of rollouts": ("DELETE", "/api/v1/rollout-hooks/999", None),
    "remove a node, release its name": ("DELETE", "/api/v1/nodes/nobody", None),
    "list people": ("GET", "/api/v1/people", None),
    "list and revoke tokens": ("GET", "/api/v1/tokens", None),
    "make tokens": ("POST", "/api/v1/tokens", None),
    "sign a browser in": ("POST", "/api/v1/sign-in-codes", None),
    "send telemetry, speak OpAMP": ("POST", "/v1/opamp", None),
    "register a node": ("POST", "/api/v1/enrol", None),
    "see and end the own sessions": ("GET", "/api/v1/sessions", None),
    "tell of other systems' alerts and of deploys": ("POST", "/api/v1/events", None),
    "send dead letters once more": ("POST", "/api/v1/destinations/999/dead-letters:replay", None),
}
"""One operation of each row of the document's matrix."""
SECURITY = (Path(__file__).resolve().parents[2] / "docs/security.md").read_text()


def matrix() -> dict[str, list[bool]]:
    """The document's, by row: viewer, operator, admin, and tokens of each scope."""
    _, _, rest = SECURITY.partition("### Who may do what")
    rows = [line.strip("|").split("|") for line in rest.partition("###")[0].splitlines() if line.startswith("|")]
    return {row[0].strip(): [cell.strip() == "yes" for cell in row[1:]] for row in rows[2:]}


@pytest.mark.slow
def test_the_document_says_who_may_do_what(http: TestClient, attacked: Attacked) -> None:
    told = matrix()
    assert set(told) == set(DEEDS)
    now = attacked.now()
    held = []
    for role in Role:
        who = known_people.Somebody("https://issuer.example", role.value, f"{role.value}@example.com")
        row = SignInAttemptRow(digest=role.value, expires_at=now)
        keyring = attacked.service.keyring
        with attacked.service.database.session() as session:
            started = known_people.start_session(session, who, role, row, now, SeenFrom(keyring, None))
        held.append({"Authorization": f"Bearer {started.secret}"})
    held += [made(http, attacked, scope=scope) for scope in ("read", "operate", "admin", "agent", "enrol", "post")]
    for deed, (method, path, body) in DEEDS.items():
        statuses = [http.request(method, path, json=body, headers=one).status_code for one in held]
        assert [status != 403 for status in statuses] == told[deed], f"{deed}: {statuses}"
        assert 401 not in statuses


def test_another_secret_in_the_client_s_file_counts_at_the_next_sign_in(
    browser: Browser, issuer: Issuer, tmp_path: Path
) -> None:
    assert browser.sign_in().status_code == 201
    issuer.secret = "another s3cret"
    refused(browser.sign_in(), "invalid_client")
    (tmp_path / "client-secret").write_text("another s3cret\n")
    assert browser.sign_in().status_code == 201
    (tmp_path / "client-secret").unlink()
    refused(browser.sign_in(), "oidc_client_secret_file: there is no file", 503)
    write_private(tmp_path / "client-secret", issuer.secret)
    assert browser.sign_in().status_code == 201


def test_a_client_s_secret_that_everybody_reads_is_none(tmp_path: Path) -> None:
    write_private(tmp_path / "client-secret", CLIENT_SECRET)
    (tmp_path / "client-secret").chmod(0o644)
    known = {"oidc_issuer": "https://i.example", "oidc_client_id": "x", "oidc_admin_groups": "a"}
    with pytest.raises(BadSettings, match=r"oidc_client_secret_file: .* may be read by everybody"):
        Attacked(tmp_path / "data", **known, oidc_client_secret_file=tmp_path / "client-secret")
