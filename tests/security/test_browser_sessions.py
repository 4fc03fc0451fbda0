"""What a session's cookie, a sign-in link and another site's page can do to a real service (SEC M3, M4, L5)."""

import logging
import re
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI
from sqlmodel import select

from controlplane.app.serve import server_of
from controlplane.app.service import Service
from controlplane.app.settings import ServiceSettings
from controlplane.auth.tables import BrowserSessionRow
from controlplane.client import Client
from controlplane.contract.bodies.access import Scope, TokenCreate
from controlplane.serving.limits import Refused
from tests.processes import free_port
from web import dashboard
from web.frame.assets import ASSETS, PREFIX

pytestmark = pytest.mark.slow
COOKIE = "tailwright_session"
TLS_PROXY = {"X-Forwarded-Proto": "https"}
"""What a trusted proxy before the service says: the browser speaks TLS."""


@dataclass
class Attacked:
    """A service with its dashboard under a real server."""

    url: str
    admin: str
    service: Service

    def browser(self, token: str | None = None) -> httpx.Client:
        """Signed in."""
        made = httpx.Client(base_url=self.url)
        assert made.post("/login", data={"token": token or self.admin}).status_code == 303
        return made

    def client(self, token: str | None = None) -> Client:
        return Client(self.url, token or self.admin)

    def refused(self) -> int:
        return self.service.door.refused[Refused.CROSS_SITE]

    def age(self, **by: timedelta) -> None:
        """Have every session been started or used so much earlier."""
        with self.service.database.session() as session:
            for row in session.exec(select(BrowserSessionRow)):
                for name, earlier in by.items():
                    setattr(row, name, getattr(row, name) - earlier)


@pytest.fixture(scope="module")
def attacked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Attacked]:
    folder, port = tmp_path_factory.mktemp("attacked"), free_port()
    url = f"http://127.0.0.1:{port}"
    made: list[Service] = []

    def mount(app: FastAPI) -> None:
        service = Service.of(app)
        made.append(service)
        tell = service.turned_away.tell
        dashboard.mount(app, url, lambda: service.door.refuse(Refused.CROSS_SITE), tell_refused=tell)

    server = server_of(ServiceSettings(data_dir=folder, port=port, log_level="error"), mount)
    thread = threading.Thread(target=server.run)
    thread.start()
    assert server.accepting.wait(60)
    yield Attacked(url, (folder / "admin-token").read_text().strip(), made[0])
    server.should_exit = True
    thread.join(30)
    assert not thread.is_alive()


def form_token(browser: httpx.Client, path: str = "/ledger") -> str:
    found = re.search(r'name="form" value="([^"]*)"', browser.get(path).text)
    assert found is not None
    return found[1]


def ends_at_sign_in(browser: httpx.Client) -> bool:
    answer = browser.get("/ledger")
    return answer.status_code == 303 and answer.headers["Location"].startswith("/login")


@pytest.mark.parametrize(
    "path", ["/", "/login", "/ledger", "/nope", "/docs", "/docs/start.js", ASSETS.address("live.js")]
)
@pytest.mark.parametrize("accept", ["text/html", "*/*"])
def test_every_answer_says_what_a_browser_may_do_with_it(attacked: Attacked, path: str, accept: str) -> None:
    answers_with_headers(attacked.browser().get(path, headers={"Accept": accept}))


@pytest.mark.parametrize(
    ("method", "path", "headers"),
    [
        ("GET", "/api/v1/nodes", {}),
        ("GET", "/openapi.json", {}),
        ("GET", "/readyz", {}),
        ("GET", "/metrics", {}),
        ("PATCH", "/api/v1/nodes", {}),
        ("POST", "/api/v1/rollouts", {"Origin": "https://evil.example"}),
        ("GET", "/", {"Host": "evil.example"}),
        ("POST", "/v1/metrics", {}),
    ],
)
def test_the_apis_answers_and_refusals_too(attacked: Attacked, method: str, path: str, headers: dict[str, str]) -> None:
    answer = httpx.request(method, attacked.url + path, headers=headers)
    answers_with_headers(answer)
    assert answer.headers["Cache-Control"] == "no-store"


@pytest.mark.parametrize(("headers", "told"), [(TLS_PROXY, True), ({}, False)])
def test_a_trusted_proxys_word_for_tls_counts(attacked: Attacked, headers: dict[str, str], told: bool) -> None:
    by_name = httpx.get(f"{attacked.url}/healthz", headers={**headers, "Host": "tailwright.example"})
    assert by_name.status_code == 421, "this service has loopback names alone; the answer has its headers all the same"
    assert ("Strict-Transport-Security" in by_name.headers) is told
    by_loopback = httpx.get(f"{attacked.url}/healthz", headers=headers)
    assert "Strict-Transport-Security" not in by_loopback.headers


def answers_with_headers(answer: httpx.Response) -> None:
    policy = dict(part.split(" ", 1) for part in answer.headers["Content-Security-Policy"].split("; "))
    assert policy["default-src"] == "'none'" and policy["frame-ancestors"] == "'none'"
    assert policy["script-src"] == "'self'" and "unsafe" not in policy["style-src"]
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    own = "same-origin" if answer.url.path == "/login" else "no-referrer"
    assert answer.headers["Referrer-Policy"] == own
    kept = answer.headers.get("Cache-Control", "")
    assert (
        "no-store" in kept or "ETag" in answer.headers or (answer.url.path.startswith(PREFIX) and "immutable" in kept)
    )
    kind = answer.headers.get("Content-Type", "")
    assert kind or not answer.content
    assert "charset=utf-8" in kind or not kind.startswith("text/")
    assert "Server" not in answer.headers and "X-Powered-By" not in answer.headers


def test_the_cookie_is_no_token_and_out_of_reach(attacked: Attacked) -> None:
    answer = httpx.post(f"{attacked.url}/login", data={"token": attacked.admin})
    cookie = answer.headers["Set-Cookie"]
    assert attacked.admin not in str(answer.headers)
    assert re.fullmatch(
        COOKIE + r"=tailwright_session_[\w-]{43}; HttpOnly; Max-Age=43200; Path=/; SameSite=lax", cookie
    )


def test_under_tls_no_other_host_can_set_the_cookie(attacked: Attacked) -> None:
    answer = httpx.post(f"{attacked.url}/login", data={"token": attacked.admin}, headers=TLS_PROXY)
    cookie = answer.headers["Set-Cookie"]
    assert cookie.startswith(f"__Host-{COOKIE}=") and "Secure" in cookie and "Domain" not in cookie
    secret = cookie.split(";")[0].split("=", 1)[1]
    secured = {**TLS_PROXY, "Cookie": f"__Host-{COOKIE}={secret}"}
    assert httpx.get(f"{attacked.url}/ledger", headers=secured).status_code == 200
    # The name without the prefix, which a neighbour may have set, is not read.
    tossed = {**TLS_PROXY, "Cookie": f"{COOKIE}={secret}"}
    assert httpx.get(f"{attacked.url}/ledger", headers=tossed).status_code == 303


def test_a_token_opens_nothing_from_an_address_or_a_cookie(attacked: Attacked) -> None:
    answer = httpx.get(f"{attacked.url}/login", params={"token": attacked.admin})
    assert answer.status_code == 200 and "Set-Cookie" not in answer.headers and attacked.admin not in answer.text
    for name in (COOKIE, "tailwright_token"):
        cookie = {"Cookie": f"{name}={attacked.admin}"}
        assert httpx.get(f"{attacked.url}/ledger", headers=cookie).status_code == 303


def test_signing_in_takes_no_session_that_was_planted(attacked: Attacked) -> None:
    planted = attacked.browser().cookies[COOKIE]
    victim = httpx.Client(base_url=attacked.url, headers={"Cookie": f"{COOKIE}={planted}"})
    answer = victim.post("/login", data={"token": attacked.admin})
    assert answer.cookies[COOKIE] != planted


def test_a_link_signs_in_once(attacked: Attacked) -> None:
    with attacked.client() as client:
        code = client.create_sign_in_code().code
    first = httpx.get(f"{attacked.url}/login", params={"code": code, "next": "/ledger"})
    assert (first.status_code, first.headers["Location"]) == (303, "/ledger")
    again = httpx.get(f"{attacked.url}/login", params={"code": code})
    assert again.status_code == 401 and "was used" in again.text and "Set-Cookie" not in again.headers
    assert httpx.post(f"{attacked.url}/api/v1/sessions", json={"code": code}).status_code == 401


def test_a_link_on_another_sites_page_signs_nobody_in(attacked: Attacked) -> None:
    with attacked.client() as client:
        code = client.create_sign_in_code().code
    for site in ("cross-site", "same-site"):
        asked = httpx.get(f"{attacked.url}/login", params={"code": code}, headers={"Sec-Fetch-Site": site})
        assert asked.status_code == 200 and "Set-Cookie" not in asked.headers
    # The button that it shows does.
    assert httpx.post(f"{attacked.url}/login", data={"code": code}).status_code == 303


def test_of_many_who_bring_one_code_one_gets_a_session(attacked: Attacked) -> None:
    with attacked.client() as client:
        code = client.create_sign_in_code().code
    statuses: list[int] = []

    def bring() -> None:
        statuses.append(httpx.post(f"{attacked.url}/api/v1/sessions", json={"code": code}, timeout=30).status_code)

    threads = [threading.Thread(target=bring) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(statuses) == [201, *[401] * 7]


def test_signing_out_ends_the_session_on_the_server(attacked: Attacked) -> None:
    browser = attacked.browser()
    stolen = httpx.Client(base_url=attacked.url, cookies={COOKIE: browser.cookies[COOKIE]})
    assert stolen.get("/ledger").status_code == 200
    form = form_token(browser)
    assert browser.post("/logout", data={"form": form}).headers["Location"] == "/login"
    assert ends_at_sign_in(stolen)
    bearer = {"Authorization": f"Bearer {stolen.cookies.get(COOKIE)}"}
    assert httpx.get(f"{attacked.url}/api/v1/nodes", headers=bearer).status_code == 401


def test_a_session_ends_with_its_token(attacked: Attacked) -> None:
    with attacked.client() as client:
        token = client.create_token(TokenCreate(name="short-lived", scope=Scope.READ))
        browser = attacked.browser(token.token)
        assert browser.get("/ledger").status_code == 200
        client.revoke_token(token.id)
    assert ends_at_sign_in(browser)


@pytest.mark.parametrize(
    "earlier", [{"used_at": timedelta(minutes=30)}, {"started_at": timedelta(hours=12)}], ids=["idle", "absolute"]
)
def test_a_session_ends_by_itself(attacked: Attacked, earlier: dict[str, timedelta]) -> None:
    browser = attacked.browser()
    assert browser.get("/ledger").status_code == 200
    attacked.age(**earlier)
    assert ends_at_sign_in(browser)


def test_a_stolen_session_makes_nothing_that_outlives_it(attacked: Attacked) -> None:
    with attacked.client(attacked.browser().cookies[COOKIE]) as thief:
        for attempt in (
            thief.create_sign_in_code,
            lambda: thief.create_token(TokenCreate(name="kept", scope=Scope.ADMIN)),
        ):
            with pytest.raises(Exception, match="needs a token itself"):
                attempt()


@pytest.mark.parametrize("path", ["/rollouts/1/start", "/rollouts/1/cancel", "/logout"])
@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "http://127.0.0.1:9999"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site", "Origin": "null"},
        {},
    ],
)
def test_a_forged_form_changes_nothing_and_is_counted(
    attacked: Attacked, path: str, headers: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "controlplane.auth")
    attacked.service.security_log.tell_all()  # What an earlier test did is new again.
    caplog.clear()
    browser, before = attacked.browser(), attacked.refused()
    # With no sign of another site its form token must be this session's.
    form = form_token(browser) if headers else form_token(attacked.browser())
    assert browser.post(path, data={"form": form}, headers=headers).status_code == 403
    assert attacked.refused() == before + 1
    told = [line for line in caplog.messages if line.startswith(("refused: reason=cross_site", "refused: reason=forb"))]
    assert len(told) == 1 and "address=127.0.0.1" in told[0], caplog.messages
    assert browser.get("/ledger").status_code == 200


def test_a_form_of_the_session_reaches_the_api(attacked: Attacked) -> None:
    browser = attacked.browser()
    sent = browser.post(
        "/rollouts/1/start",
        data={"form": form_token(browser)},
        headers={"Origin": attacked.url, "Sec-Fetch-Site": "same-origin"},
    )
    assert sent.status_code == 404  # There is no rollout 1.


@pytest.mark.parametrize("origin", ["https://evil.example", "null"])
def test_another_sites_form_signs_nobody_in(attacked: Attacked, origin: str) -> None:
    answer = httpx.post(f"{attacked.url}/login", data={"token": attacked.admin}, headers={"Origin": origin})
    assert answer.status_code == 403 and "Set-Cookie" not in answer.headers


def test_made_up_cookies_make_nothing(attacked: Attacked, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[object] = []
    monkeypatch.setattr("web.access.sessions.Client", lambda *given, **named: made.append(given))
    for cookie in ("x", "tailwright_" + "a" * 43, "tailwright_session_" + "a" * 42, "tailwright_session_" + "a" * 99):
        answer = httpx.get(f"{attacked.url}/ledger", headers={"Cookie": f"{COOKIE}={cookie}"})
        assert answer.status_code == 303
    assert made == []


def test_nothing_at_rest_is_a_secret(attacked: Attacked, tmp_path: Path) -> None:
    browser = attacked.browser()
    with attacked.client() as client:
        code = client.create_sign_in_code().code
    folder = attacked.service.settings.data_dir
    stored = b"".join(file.read_bytes() for file in folder.glob("*.db*"))
    assert stored
    for secret in (browser.cookies[COOKIE], code, attacked.admin):
        assert secret.encode() not in stored
