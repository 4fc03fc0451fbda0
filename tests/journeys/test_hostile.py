"""Whatever an agent sends, every route and page answers below 500, and what is malformed is told so.

The same fuzzing at length, on a real process: `python -m benchmarks.hostile`.
"""

import random
import re
import threading
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry._opamp.proto import opamp_pb2

from benchmarks.hostile.service import NODE, Service, Tally
from controlplane.app.serve import server_of
from controlplane.app.settings import ServiceSettings
from controlplane.client import Client
from tests.processes import free_port
from tests.soak import soak
from web import dashboard

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service with its dashboard, under a real server."""
    folder = tmp_path_factory.mktemp("hostile")
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    server = server_of(
        ServiceSettings(data_dir=folder, port=port, log_level="error"), lambda app: dashboard.mount(app, url)
    )
    thread = threading.Thread(target=server.run)
    thread.start()
    assert server.accepting.wait(60)
    service = Service(url, (folder / "admin-token").read_text().strip())
    yield service
    service.close()
    server.should_exit = True
    thread.join(30)
    assert not thread.is_alive()


@pytest.mark.soak
@settings(max_examples=soak(2, 6), deadline=None, derandomize=True, database=None)
@given(seed=st.integers(0, 2**32))
def test_whatever_an_agent_sends_everything_answers_below_500(hostile: Service, seed: int) -> None:
    rng, tally = random.Random(seed), Tally()
    hostile.messages(rng, 50, tally)
    hostile.reports(rng, 15, tally)
    hostile.sweep(tally, rng)
    assert tally.failures == []


@pytest.mark.soak
@settings(max_examples=soak(1, 3), deadline=None, derandomize=True, database=None)
@given(seed=st.integers(0, 2**32))
def test_whatever_a_client_asks_is_answered_below_500(hostile: Service, seed: int) -> None:
    rng, tally = random.Random(seed), Tally()
    hostile.requests(rng, 100, tally)
    hostile.sweep(tally, rng)
    assert tally.failures == []


@pytest.mark.parametrize(
    "body",
    [
        b'{"revision": 1, "knobs": {}, "costs": {"live": {"count": 1, "last_s": 1e999, "mean_s": 1e308}}}',
        b'{"revision": 1, "knobs": {"quantization": ["int8"], "max_num_seqs": "\\"><script>"}}',
        b'{"revision": 1, "knobs": {"num_speculative_tokens": [[1, 2, 3]]}, "live_limits": {"quantization": 3}}',
    ],
)
def test_one_node_s_bad_report_blinds_nobody(hostile: Service, body: bytes) -> None:
    message = opamp_pb2.AgentToServer(instance_uid=bytes(range(16)), sequence_num=1)
    for name, value in (("service.instance.id", NODE), ("tailwright.pool", "chat"), ("tailwright.role", "serving")):
        message.agent_description.non_identifying_attributes.add(key=name).value.string_value = value
    message.effective_config.config_map.config_map["effective.json"].body = body
    answer = hostile.agent.post(
        "/v1/opamp", content=message.SerializeToString(), headers={"Content-Type": "application/x-protobuf"}
    )
    told = opamp_pb2.ServerToAgent.FromString(answer.content)
    assert answer.status_code == 200 and "effective.json." in told.error_response.error_message
    tally = Tally()
    hostile.sweep(tally)
    assert tally.failures == []
    with Client(hostile.url, hostile.http.headers["Authorization"].removeprefix("Bearer ")) as client:
        assert NODE in [node.node for node in client.nodes()] and client.left_out.count == 0
    text = hostile.http.get("/metrics").text
    found = re.search(r"^tailwright_opamp_parts_left_out_total (\d+)", text, re.MULTILINE)
    assert found is not None and int(found[1]) > 0


@pytest.mark.parametrize(
    ("address", "status"),
    [
        ("/login?code=%0d%0aX:1", 401),
        ("/login?code=%C3%A9", 401),
        ("/login?code=tailwright_code_short", 401),
        ("/login?token=tailwright_short", 200),
        ("/nodes/%0d%0aX", 404),
        ("/nodes/a%2Fb", 404),
        ("/nodes/%2E%2E", 404),
        ("/parts/node/node", 404),
        ("/parts/node/node?node_name=%0d%0aX", 404),
        ("/parts/node/node?node_name=..", 404),
        ("/parts/node/nothing", 404),
        ("/parts/nothing/node", 404),
        ("/parts/alert/alert?alert=" + "9" * 200, 404),
        ("/parts/alert/alert?alert=%C2%B2", 404),
        ("/live/nothing", 404),
        ("/live/fleet?from=never", 400),
        ("/fleet?timezone=..%2F..%2Fetc%2Fpasswd", 400),
        ("/fleet?revision=" + "9" * 100, 400),
        ("/fleet?from=0001-01-01T00:00:00%2B14:00", 400),
        ("/alerts/" + "9" * 5000, 400),
        ("/alerts/" + "9" * 18, 400),
    ],
)
def test_pages_with_names_that_nothing_has(hostile: Service, address: str, status: int) -> None:
    assert hostile.browser.get(address).status_code == status


@pytest.mark.parametrize("token", ["é", "a\x00b", "\r\nX: 1", "x" * 5000])
def test_a_form_with_what_is_no_token(hostile: Service, token: str) -> None:
    answer = httpx.post(f"{hostile.url}/login", data={"token": token})
    assert (answer.status_code, "unknown or revoked token" in answer.text) == (401, True)


def test_a_cookie_that_is_no_session_is_sent_to_sign_in(hostile: Service) -> None:
    for cookie in ("é".encode("latin-1"), "é".encode(), b"tailwright_session_" + b"a" * 44, b"tailwright_" + b"a" * 43):
        answer = httpx.get(f"{hostile.url}/fleet", headers={b"Cookie": b"tailwright_session=" + cookie})
        assert (answer.status_code, answer.headers["Location"]) == (303, "/login?next=/fleet")


def test_no_client_is_made_for_what_is_no_token(hostile: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []

    def client(*given: Any, **more: Any) -> Client:
        made.append(repr((given, more)))
        return Client(*given, **more)

    monkeypatch.setattr("web.access.sessions.Client", client)
    for token in ("wrong", "tailwright_" + "a" * 42, "tailwright_" + "a" * 44, "tailwright_" + "a" * 42 + "\n"):
        assert httpx.post(f"{hostile.url}/login", data={"token": token}).status_code == 401
        assert httpx.get(f"{hostile.url}/", headers={"Cookie": f"tailwright_session={token[:50]}"}).status_code == 303
        # Which ways to sign in there are is asked without a token.
        assert not [one for one in made if token.strip() in one or "tailwright_" in one]


@pytest.mark.parametrize(
    ("status", "content", "kind"),
    [
        (400, b"[" * 100_000, "application/json"),
        (415, b"[" * 100_000, "text/plain"),
        (415, b"a=b", "application/x-www-form-urlencoded"),
        (413, b"x" * ((1 << 20) + 1), "application/json"),
        (400, b"{", "application/json"),
    ],
)
def test_after_an_error_the_connection_is_of_use_or_says_that_it_closes(
    hostile: Service, status: int, content: bytes, kind: str
) -> None:
    with httpx.Client(base_url=hostile.url, headers=hostile.http.headers) as http:
        for _ in range(3):
            answer = http.post("/api/v1/silences", content=content, headers={"Content-Type": kind})
            assert answer.status_code == status
            assert http.get("/healthz").status_code == 200
