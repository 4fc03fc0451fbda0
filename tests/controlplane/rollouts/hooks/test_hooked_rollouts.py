"""Rollouts that ask and tell: a real receiver, the real registry, a controller and a caller anew at each step."""

import json
import threading
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from controlplane.contract.bodies.rollouts import Rollout, RolloutCreate, RolloutPhase
from controlplane.contract.changes.hooks import HookKind, HookSettings, HookState, OnSilence
from controlplane.contract.errors import BadRequest
from controlplane.contract.signature import HEADER, verify
from controlplane.outgoing import ANYWHERE
from controlplane.rollouts import store as rollouts
from controlplane.rollouts.hooks import store
from controlplane.rollouts.hooks.hook_caller import HookCaller
from tests.controlplane.rollouts.test_controller import SPEC, Stage
from tests.keyrings import keyring_of

pytestmark = pytest.mark.slow

SECRET = "a-long-signing-secret"


class Desk:
    """Whom hooks call: answers what stands in `answers` by kind, else 200, and keeps what came."""

    def __init__(self) -> None:
        self.answers: dict[str, tuple[int, str]] = {}
        self.came: list[tuple[dict[str, Any], dict[str, str], bytes]] = []
        self.hangs = threading.Event()
        desk = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                said = json.loads(body)
                desk.came.append((said, dict(self.headers), body))
                status, text = desk.answers.get(said["kind"], (200, ""))
                if status == 0:
                    desk.hangs.wait(30)
                    return
                self.send_response(status)
                if status == 302:
                    self.send_header("Location", f"http://127.0.0.1:{desk.port}/elsewhere")
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text.encode())

            def log_message(self, format: str, *args: object) -> None:
                """Silence."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def kinds(self) -> list[str]:
        return [said["kind"] for said, _, _ in self.came]

    def close(self) -> None:
        self.hangs.set()
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def desk() -> Iterator[Desk]:
    made = Desk()
    yield made
    made.close()


class Hooked(Stage):
    """A stage whose hooks are called between two ticks."""

    def __init__(self, fleet: Any, telemetry: Any, start: datetime, desk: Desk) -> None:
        super().__init__(fleet, telemetry, start)
        self.desk = desk

    def slow_before(self) -> None:
        """What runs now is so slow that the new revision is better within a minute."""
        self.fleet.factor = {self.old: 5.0}
        self.telemetry.points.clear()
        for _ in range(24):
            self.fleet.serve(self.now)
            self.now += timedelta(seconds=5)

    def hook(self, kind: HookKind, **changes: Any) -> int:
        url = f"http://127.0.0.1:{self.desk.port}/hooks/hidden-part"
        wanted = {"pool": "chat", "name": kind.value, "kind": kind, "url": url, "retries": 0, "timeout_s": 5}
        with self.fleet.database.session() as session:
            settings = HookSettings.model_validate({**wanted, **changes})
            keyring = keyring_of(self.fleet.database)
            return store.set_hook(session, settings, keyring, actor="ann", now=self.now).id

    def call(self) -> None:
        caller = HookCaller(
            self.fleet.database, keyring_of(self.fleet.database), policy=ANYWHERE, clock=lambda: self.now, sole=True
        )
        caller.tick(self.now)
        assert caller.settle(30)
        caller.tick(self.now)
        caller.close()

    def tick(self) -> None:
        super().tick()
        self.call()


@pytest.fixture
def stage(fleet: Any, telemetry: Any, start: datetime, desk: Desk) -> Hooked:
    made = Hooked(fleet, telemetry, start, desk)
    made.prepare()
    return made


def start_of(stage: Hooked, **changes: Any) -> Rollout:
    """As a service that validates begins it."""
    with stage.fleet.database.session() as session:
        spec = RolloutCreate.model_validate({**SPEC, "revision": stage.new, **changes})
        return rollouts.create(session, spec, actor="ann", now=stage.now, validates=True)


def test_who_confirms_is_asked_once_and_keeps_it_until_it_agrees(
    stage: Hooked, desk: Desk, ledger_kinds: Callable[[], list[str]]
) -> None:
    stage.slow_before()
    stage.hook(HookKind.CONFIRM_START, secret=SECRET)
    desk.answers["confirm-start"] = (409, "the release meeting is at four")
    rollout = start_of(stage)
    held = stage.run(rollout.id, seconds=30)
    assert held.phase is RolloutPhase.VALIDATING and held.told_nodes == []
    assert held.held == "hook confirm-start wants it to wait: the release meeting is at four"
    assert [(call.state, call.attempts) for call in held.hooks] == [(HookState.HALT, 1)], "not at each tick"
    (said, headers, body) = desk.came[0]
    assert said["rollout"] == rollout.id and said["diff"]["max_num_seqs"] == {"from": 16, "to": 64}
    assert said["revision"] == {"from": stage.old, "to": stage.new}
    assert verify(SECRET, body, headers[HEADER], stage.now.timestamp() - 30)

    desk.answers.clear()
    ended = stage.run(rollout.id, seconds=600)
    assert ended.phase is RolloutPhase.PROMOTED, ended.message
    kinds = ledger_kinds()
    assert kinds.count("rollout.hook_halt") == 1 and kinds.count("rollout.hook_go") == 1
    assert desk.kinds() == ["confirm-start", "confirm-start"], "asked again after a minute, then no more"


def test_a_promotion_is_confirmed_after_the_canary_was_judged_well(stage: Hooked, desk: Desk) -> None:
    stage.slow_before()
    stage.hook(HookKind.CONFIRM_PROMOTION)
    desk.answers["confirm-promotion"] = (423, "")
    rollout = start_of(stage)
    held = stage.run(rollout.id, seconds=240)
    assert held.phase is RolloutPhase.SOAKING and len(held.told_nodes) == 1 and held.verdict is not None
    assert held.held is not None and "wants it to wait" in held.held and "once confirm-promotion agrees" in held.next
    desk.answers.clear()
    assert stage.run(rollout.id, seconds=600).phase is RolloutPhase.PROMOTED


@pytest.mark.parametrize("answer", [(500, "no"), (302, ""), (0, "")], ids=["500", "redirect", "hangs"])
@pytest.mark.parametrize("silence", list(OnSilence))
def test_silence_is_what_the_hook_says_it_is(
    stage: Hooked, desk: Desk, answer: tuple[int, str], silence: OnSilence
) -> None:
    stage.hook(HookKind.CONFIRM_START, on_silence=silence, timeout_s=0.5)
    desk.answers["confirm-start"] = answer
    rollout = stage.run(start_of(stage).id, seconds=20)
    expected = {
        OnSilence.HOLD: RolloutPhase.VALIDATING,
        OnSilence.PROCEED: RolloutPhase.JUDGING,
        OnSilence.ROLL_BACK: RolloutPhase.FAILED,
    }
    assert rollout.phase is expected[silence], rollout.message
    assert stage.fleet.running()["b"] == stage.old
    if silence is OnSilence.HOLD:
        assert rollout.held is not None and "does not answer" in rollout.held
    assert "hidden-part" not in rollout.model_dump_json()


def test_who_is_told_never_keeps_it(stage: Hooked, desk: Desk) -> None:
    stage.hook(HookKind.EVENT)
    stage.hook(HookKind.ROLLBACK)
    desk.answers |= {"event": (500, ""), "rollback": (403, "")}
    stage.fleet.factor = {stage.new: 5.0}
    rollout = stage.run(start_of(stage).id, seconds=1200)
    assert rollout.phase is RolloutPhase.ROLLED_BACK
    phases = [said["phase"] for said, _, _ in desk.came if said["kind"] == "event"]
    assert phases[0] == "validating" and "rolling_back" in phases and phases[-1] == "rolled_back"
    assert [said["phase"] for said, _, _ in desk.came if said["kind"] == "rollback"] == ["rolling_back"]


def test_an_emergency_and_a_take_back_wait_for_nobody(stage: Hooked, desk: Desk) -> None:
    stage.hook(HookKind.CONFIRM_START)
    desk.answers["confirm-start"] = (409, "")
    emergency = start_of(stage, emergency=True, reason="it crashes")
    assert stage.run(emergency.id, seconds=60).phase is RolloutPhase.PROMOTED
    assert desk.came == []


def test_a_hook_that_is_removed_is_waited_for_no_more(stage: Hooked, desk: Desk) -> None:
    number = stage.hook(HookKind.CONFIRM_START)
    desk.answers["confirm-start"] = (409, "")
    rollout = start_of(stage)
    assert stage.run(rollout.id, seconds=30).phase is RolloutPhase.VALIDATING
    with stage.fleet.database.session() as session:
        store.remove_hook(session, number, actor="ann", now=stage.now)
    stage.now += timedelta(seconds=5)
    assert stage.run(rollout.id, seconds=15).phase in (RolloutPhase.CANARY, RolloutPhase.JUDGING)


def test_a_secret_goes_nowhere_else(stage: Hooked) -> None:
    stage.hook(HookKind.EVENT, secret=SECRET)
    with pytest.raises(BadRequest, match="secret_kept: the secret belongs to"):
        stage.hook(HookKind.EVENT, url="https://elsewhere.example/x", secret_kept=True)
    with pytest.raises(BadRequest, match="url: say where"):
        stage.hook(HookKind.ROLLBACK, url=None)
