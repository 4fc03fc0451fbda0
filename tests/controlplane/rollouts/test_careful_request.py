"""What people do with rollouts over HTTP: paused, resumed, aborted, tried again, reverted; once, only of what was read,
or dry."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from httpx import Response
from sqlmodel import Session, select

from controlplane.api import error_handlers
from controlplane.auth import store as tokens
from controlplane.auth.token_cache import TokenCache
from controlplane.contract.bodies.access import Scope
from controlplane.db.database import Database
from controlplane.db.keyed_answers import KeyedAnswerRow
from controlplane.fleet import FleetHub, revisions
from controlplane.ledger.tables import LedgerRow
from controlplane.rollouts import endpoints
from controlplane.rollouts.reach.reach_endpoints import ReachDesk
from controlplane.rollouts.tables import RolloutRow
from controlplane.rollouts.validation.node_findings import MEMORY
from tests.controlplane.db.keyed_route import KeyedConformance, KeyedRoute
from tests.controlplane.telemetry.fake_reader import FakeReader
from tests.keyrings import keyring_of

Tick = Callable[[datetime], None]
START = datetime(2025, 3, 1, 12, 0, tzinfo=UTC)


class Hours:
    """The service's clock, moved by hand."""

    def __init__(self, now: datetime) -> None:
        self.now = now

    def __call__(self) -> datetime:
        return self.now


@pytest.fixture
def clock(start: datetime) -> Hours:
    return Hours(start)


@pytest.fixture
def http(database: Database, clock: Hours) -> Iterator[TestClient]:
    app = FastAPI()
    app.state.service = endpoints.RolloutParts(
        database=database,
        clock=clock,
        tokens=TokenCache(database),
        keyring=keyring_of(database),
        fleet=FleetHub(database),
        pool_limits=lambda session, pool: [],
        reach=ReachDesk(FakeReader()),
    )
    app.include_router(endpoints.router)
    error_handlers.install(app)
    with database.session() as session:
        _, token = tokens.issue(session, name="ann", scope=Scope.OPERATE, now=clock.now)
    with TestClient(app, headers={"Authorization": f"Bearer {token}"}) as client:
        yield client


@pytest.fixture
def wanted(fleet: Any) -> dict[str, Any]:
    fleet.add("a", "b", "c", "d")
    old, new = fleet.revision(16), fleet.revision(64)
    fleet.put_in_production(old)
    return {"pool": "chat", "revision": new}


def written(database: Database) -> tuple[int, int]:
    """How many rollouts and ledger entries there are."""
    with Session(database.engine) as session:
        return len(session.exec(select(RolloutRow)).all()), len(session.exec(select(LedgerRow)).all())


def act(http: TestClient, number: int, what: str, status: int = 200, **how: Any) -> dict[str, Any]:
    answer = http.post(f"/api/v1/rollouts/{number}/{what}", **how)
    assert answer.status_code == status, answer.text
    return dict(answer.json())


def test_a_rollout_is_paused_resumed_aborted_and_tried_again(
    http: TestClient, wanted: dict[str, Any], tick: Tick
) -> None:
    made = http.post("/api/v1/rollouts", json=wanted).json()
    assert made["phase"] == "validating"
    assert "cannot be paused" in act(http, made["id"], "pause", 409)["error"]["message"]
    tick(START)
    paused = act(http, made["id"], "pause", params={"reason": "lunch"})
    assert (paused["phase"], paused["resumes"]) == ("paused", "canary")
    assert paused["message"] == "paused by ann while canary: lunch" and paused["until"] is None
    assert act(http, made["id"], "pause")["step"] == paused["step"], "it is paused already"
    assert act(http, made["id"], "resume")["phase"] == "canary"
    assert "only what is paused can be" in act(http, made["id"], "resume", 409)["error"]["message"]
    assert "has not gone back" in act(http, made["id"], "retry", 409)["error"]["message"]
    assert act(http, made["id"], "abort")["phase"] == "rolling_back"
    assert "it was not promoted" in act(http, made["id"], "revert", 409)["error"]["message"]


def test_the_same_key_gets_the_same_answer_and_nothing_is_done_twice(
    http: TestClient, database: Database, wanted: dict[str, Any], clock: Hours, tick: Tick
) -> None:
    once = {"Idempotency-Key": "deploy-7"}
    first = http.post("/api/v1/rollouts", json=wanted, headers=once)
    assert first.status_code == 201
    before = written(database)
    again = http.post("/api/v1/rollouts", json=wanted, headers=once)
    assert (again.status_code, again.json()) == (201, first.json())
    assert written(database) == before
    other = http.post("/api/v1/rollouts", json=wanted | {"reason": "other"}, headers=once)
    assert other.status_code == 409 and other.json()["error"]["detail"]["field"] == "Idempotency-Key"
    number = first.json()["id"]
    tick(clock.now)
    held = act(http, number, "pause", headers={"Idempotency-Key": "pause-7"})
    act(http, number, "resume")
    assert act(http, number, "pause", headers={"Idempotency-Key": "pause-7"}) == held
    assert http.get(f"/api/v1/rollouts/{number}").json()["phase"] == "canary"
    clock.now += timedelta(days=1, seconds=1)
    act(http, number, "pause", headers={"Idempotency-Key": "pause-7"})
    with Session(database.engine) as session:
        assert [row.key for row in session.exec(select(KeyedAnswerRow))] == ["pause-7"]


class TestProposalsAreMadeOnceByTheirKey(KeyedConformance):
    @pytest.fixture
    def route(self, http: TestClient, database: Database, wanted: dict[str, Any], clock: Hours) -> KeyedRoute:
        with database.session() as session:
            _, token = tokens.issue(session, name="bo", scope=Scope.OPERATE, now=clock.now)

        def send(key: str | None, changes: dict[str, Any], by_another: bool) -> Response:
            headers = {"Idempotency-Key": key} if key else {}
            headers |= {"Authorization": f"Bearer {token}"} if by_another else {}
            return http.post("/api/v1/rollouts", json={**wanted, "start": False, **changes}, headers=headers)

        def pass_time(span: timedelta) -> None:
            clock.now += span

        return KeyedRoute(send, lambda: written(database)[0], pass_time, refused={"pool": "nowhere"})


def test_a_change_of_what_has_moved_since_is_refused(http: TestClient, wanted: dict[str, Any], tick: Tick) -> None:
    made = http.post("/api/v1/rollouts", json=wanted)
    number, read = made.json()["id"], made.headers["ETag"]
    assert http.get(f"/api/v1/rollouts/{number}").headers["ETag"] == read
    tick(START)
    read = http.get(f"/api/v1/rollouts/{number}").headers["ETag"]
    assert read != made.headers["ETag"]
    act(http, number, "pause", headers={"If-Match": read})
    refused = act(http, number, "resume", 412, headers={"If-Match": read})["error"]
    assert refused["code"] == "precondition_failed" and refused["detail"]["etag"] != read
    act(http, number, "resume", headers={"If-Match": refused["detail"]["etag"]})
    act(http, number, "abort", headers={"If-Match": "*"})


def test_a_dry_run_says_stages_nodes_and_time_and_does_nothing(
    http: TestClient, database: Database, fleet: Any, wanted: dict[str, Any], tick: Tick
) -> None:
    wanted |= {"stages": [{"share": 0}, {"share": 0.5, "pause": True}, {"share": 1}], "soak_s": 60}
    before = written(database)
    answer = http.post("/api/v1/rollouts", json=wanted, params={"dry_run": True})
    assert answer.status_code == 200
    told = answer.json()
    assert told["rollout"]["phase"] == "validating"
    assert [(wave["nodes"], wave["pauses"]) for wave in told["waves"]] == [(1, False), (2, True), (4, False)]
    assert sorted(node for wave in told["waves"] for node in wave["named"]) == ["a", "b", "c", "d"]
    # Three waves of 120 s to apply and 60 s of soak, a canary's 3600 s and two waves' 1800 s.
    assert told["longest_s"] == 3 * (120 + 60) + 3600 + 2 * 1800
    assert told["says"][0] == "1. 1 of 4 nodes as the canary, then judged; watched on for 60.0 s"
    assert written(database) == before
    assert {view.desired_revision for view in fleet.views()} == {1}
    number = http.post("/api/v1/rollouts", json=wanted).json()["id"]
    tick(START)
    before = written(database)
    assert act(http, number, "abort", params={"dry_run": True})["rollout"]["phase"] == "rolling_back"
    assert http.get(f"/api/v1/rollouts/{number}").json()["phase"] == "canary"
    assert written(database) == before
    act(http, number, "start", 409, params={"dry_run": True})


def test_a_dry_run_says_whom_it_can_hurt_and_what_is_to_be_known_of_nodes(
    http: TestClient, fleet: Any, wanted: dict[str, Any]
) -> None:
    fleet.change("b", connected=False)
    told = http.post("/api/v1/rollouts", json=wanted, params={"dry_run": True}).json()
    assert (told["blast_radius"]["nodes"], told["blast_radius"]["nodes_at_once"]) == (4, 1)
    assert told["blast_radius"]["says"][0] == "4 nodes, at most 1 at once"
    assert [(one["node"], one["refuses"]) for one in told["findings"]] == [(node, False) for node in "babcd"]
    away, *memory = told["findings"]
    assert away["field"] != MEMORY and {one["field"] for one in memory} == {MEMORY}
    assert all("does not tell its memory" in one["problem"] for one in memory)
    assert told["more_findings"] == 0


def test_knobs_are_proposed_as_a_revision_that_a_dry_run_does_not_leave(
    http: TestClient, database: Database, wanted: dict[str, Any]
) -> None:
    proposal = wanted | {"knobs": {"max_num_seqs": 20}, "start": False, "reason": "long queues"}
    before, newest = written(database), http.post("/api/v1/rollouts", json=wanted | {"start": False}).json()
    told = http.post("/api/v1/rollouts", json=proposal, params={"dry_run": True}).json()
    assert told["rollout"]["spec"]["revision"] not in (wanted["revision"], newest["spec"]["revision"])
    assert told["blast_radius"]["nodes"] == 4
    assert written(database) == (before[0] + 1, before[1] + 1), "of the other rollout alone"
    made = http.post("/api/v1/rollouts", json=proposal).json()
    with database.session() as session:
        revision = revisions.revision(session, made["spec"]["revision"])
    assert (revision.knobs.max_num_seqs, revision.note, revision.created_by) == (20, "long queues", "ann")
    assert "knobs" not in made["spec"]
    again = http.post("/api/v1/rollouts", json=proposal).json()
    assert again["spec"]["revision"] == made["spec"]["revision"], "equal knobs are one revision"


@pytest.mark.parametrize(
    ("changed", "status", "field"),
    [
        ({"knobs": {"max_num_seqs": 0}}, 400, "knobs.max_num_seqs"),
        ({"knobs": {"max_seqs": 8}}, 400, "knobs.max_seqs"),
        ({"knobs": {"max_num_seqs": 8}, "revision": 99}, 400, "revision"),
        ({"knobs": {"max_num_seqs": 16}}, 409, "revision"),
    ],
)
def test_what_is_wrong_with_proposed_knobs_is_told_by_field(
    http: TestClient, database: Database, wanted: dict[str, Any], changed: dict[str, Any], status: int, field: str
) -> None:
    before = written(database)
    refused = http.post("/api/v1/rollouts", json=wanted | changed)
    assert refused.status_code == status and refused.json()["error"]["detail"]["field"] == field
    assert written(database) == before


def test_what_was_promoted_is_reverted_by_a_judged_rollout(
    http: TestClient, database: Database, fleet: Any, wanted: dict[str, Any]
) -> None:
    made = http.post("/api/v1/rollouts", json=wanted | {"tolerance": 0.2}).json()
    with database.session() as session:
        row = session.get_one(RolloutRow, made["id"])
        row.phase, row.active_pool = "promoted", None
        session.add(row)
    fleet.put_in_production(wanted["revision"])
    back = act(http, made["id"], "revert")
    assert (back["phase"], back["follows"], back["spec"]["revision"]) == (
        "validating",
        made["id"],
        made["previous_revision"],
    )
    assert (back["spec"]["takes_back"], back["spec"]["tolerance"]) == (wanted["revision"], 0.2)
    assert back["spec"]["on_inconclusive"] == "hold"
    act(http, back["id"], "cancel")


def test_one_that_wants_an_approval_waits_for_another_admin(
    http: TestClient, database: Database, clock: Hours, wanted: dict[str, Any]
) -> None:
    made = http.post("/api/v1/rollouts", json=wanted | {"wants_approval": True}).json()
    assert (made["phase"], made["next"]) == (
        "awaiting_approval",
        "another than who proposed it approves, or cancels it",
    )
    assert "another admin approves" in act(http, made["id"], "start", 403)["error"]["message"]
    act(http, made["id"], "approve", 403)
    with database.session() as session:
        _, token = tokens.issue(session, name="eve", scope=Scope.ADMIN, now=clock.now)
    begun = act(http, made["id"], "approve", headers={"Authorization": f"Bearer {token}"})
    assert (begun["phase"], begun["approved_by"]) == ("validating", "eve")
