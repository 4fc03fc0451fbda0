"""The rollouts' endpoints, as the typed client calls them."""

from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any

import anyio
import httpx
import pytest
from fastapi import FastAPI

from controlplane.api import error_handlers
from controlplane.auth import store as tokens
from controlplane.auth.token_cache import TokenCache
from controlplane.client import Client
from controlplane.contract.bodies.access import Scope
from controlplane.contract.bodies.rollouts import Rollout, RolloutAction, RolloutCreate, RolloutPhase, Stage, Verdict
from controlplane.contract.bodies.slo import Limit
from controlplane.contract.changes.blast_radius import BlastLimit
from controlplane.contract.errors import BadRequest, Conflict, Forbidden, NotFound
from controlplane.contract.on_call.rollout_policies import RolloutPolicyCreate
from controlplane.db.database import Database
from controlplane.fleet import FleetHub
from controlplane.rollouts import endpoints
from controlplane.rollouts.policies import store as policies
from controlplane.rollouts.reach import reach_endpoints
from controlplane.rollouts.reach.reach_endpoints import ReachDesk
from tests.controlplane.telemetry.fake_reader import FakeReader
from tests.keyrings import keyring_of

Make = Callable[[Scope], Client]


class InProcess(httpx.BaseTransport):
    """Calls an application without a socket."""

    def __init__(self, app: FastAPI) -> None:
        self._asgi = httpx.ASGITransport(app)

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        wanted = httpx.Request(request.method, request.url, headers=request.headers, content=request.read())

        async def call() -> httpx.Response:
            response = await self._asgi.handle_async_request(wanted)
            return httpx.Response(response.status_code, headers=response.headers, content=await response.aread())

        return anyio.run(call)


@pytest.fixture
def client(database: Database, start: datetime) -> Iterator[Make]:
    app = FastAPI()
    app.state.service = endpoints.RolloutParts(
        database=database,
        clock=lambda: start,
        tokens=TokenCache(database),
        keyring=keyring_of(database),
        fleet=FleetHub(database),
        pool_limits=lambda session, pool: [Limit(metric="itl", q=0.99, limit_s=0.2)],
        reach=ReachDesk(FakeReader()),
    )
    app.include_router(endpoints.router)
    app.include_router(reach_endpoints.router)
    error_handlers.install(app)
    made: list[Client] = []

    def make(scope: Scope) -> Client:
        with database.session() as session:
            _, token = tokens.issue(session, name=scope.value, scope=scope, now=start)
        made.append(Client("http://testserver", token, transport=InProcess(app)))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.fixture
def spec(fleet: Any) -> RolloutCreate:
    fleet.add("a", "b")
    old, new = fleet.revision(16), fleet.revision(64)
    fleet.put_in_production(old)
    return RolloutCreate(pool="chat", revision=new)


def test_create_start_cancel_and_read(
    client: Make, spec: RolloutCreate, fleet: Any, tick: Callable[[datetime], None], start: datetime
) -> None:
    person = client(Scope.OPERATE)
    proposed = person.create_rollout(spec.model_copy(update={"start": False}))
    assert (proposed.phase, proposed.created_by) == (RolloutPhase.PROPOSED, "operate")
    assert person.start_rollout(proposed.id).phase is RolloutPhase.VALIDATING
    tick(start)
    started = person.rollout(proposed.id)
    assert (started.phase, started.canary_nodes) == (RolloutPhase.CANARY, ["a"])
    assert [view.desired_revision for view in fleet.views()] == [spec.revision, started.previous_revision]
    assert person.cancel_rollout(proposed.id).phase is RolloutPhase.ROLLING_BACK
    assert person.cancel_rollout(proposed.id).phase is RolloutPhase.ROLLING_BACK
    assert [view.desired_revision for view in fleet.views()] == [started.previous_revision] * 2
    with pytest.raises(Conflict):
        person.start_rollout(proposed.id)
    assert person.rollout(proposed.id).phase is RolloutPhase.ROLLING_BACK
    with pytest.raises(NotFound):
        person.rollout(99)


def test_pages_go_through_all_rollouts(client: Make, spec: RolloutCreate) -> None:
    person = client(Scope.OPERATE)
    for _ in range(3):
        person.create_rollout(spec.model_copy(update={"start": False}))
    assert [found.id for found in person.every(Rollout, "/api/v1/rollouts", limit=2)] == [3, 2, 1]
    assert list(person.every(Rollout, "/api/v1/rollouts", pool="code")) == []


def test_emergencies_need_an_admin_and_a_reason(client: Make, spec: RolloutCreate) -> None:
    operator, admin = client(Scope.OPERATE), client(Scope.ADMIN)
    emergency = spec.model_copy(update={"emergency": True, "reason": "all requests fail", "start": False})
    with pytest.raises(Forbidden):
        operator.create_rollout(emergency)
    with pytest.raises(BadRequest) as caught:
        admin.create_rollout(emergency.model_copy(update={"reason": ""}))
    assert caught.value.detail["field"] == "reason"
    proposed = admin.create_rollout(emergency)
    with pytest.raises(Forbidden):
        operator.start_rollout(proposed.id)
    started = admin.start_rollout(proposed.id)
    assert (started.phase, started.verdict) == (RolloutPhase.PROMOTING, Verdict.UNJUDGED)


def test_readers_only_read(client: Make, spec: RolloutCreate) -> None:
    reader = client(Scope.READ)
    with pytest.raises(Forbidden):
        reader.create_rollout(spec)
    assert reader.rollouts() == []


@pytest.mark.parametrize(
    ("changes", "error", "field"),
    [
        ({"revision": 2**70}, BadRequest, "revision"),
        ({"revision": -1}, BadRequest, "revision"),
        ({"pool": "nobody"}, BadRequest, "pool"),
        ({"metrics": ["requests"]}, BadRequest, "metrics[0]"),
        ({"stages": [Stage(share=0.5), Stage(share=0.5)]}, BadRequest, "stages[1].share"),
        ({"stages": [Stage(share=0), Stage(share=0.5)]}, BadRequest, "stages[1].share"),
        ({"soak_s": 1e300}, BadRequest, "soak_s"),
        ({"extended_judge_s": 1e300}, BadRequest, "extended_judge_s"),
        ({"canary_selector": "region=eu-9"}, BadRequest, "canary_selector"),
        ({"wave_by": "rack"}, BadRequest, "wave_by"),
        ({"wave_by": "node", "wave_order": ["b", "c"]}, BadRequest, "wave_order[1]"),
        ({"wave_by": "node", "wave_order": ["b", "b"]}, BadRequest, "wave_order[1]"),
        ({"revision": 1}, Conflict, "revision"),
    ],
)
def test_each_wrong_field_is_named(
    client: Make, spec: RolloutCreate, changes: dict[str, Any], error: type[BadRequest], field: str
) -> None:
    with pytest.raises(error) as caught:
        client(Scope.OPERATE).create_rollout(spec.model_copy(update=changes))
    assert caught.value.detail["field"] == field


def test_only_what_is_in_production_is_taken_back(client: Make, spec: RolloutCreate, fleet: Any) -> None:
    person = client(Scope.OPERATE)
    old, other = spec.model_copy(update={"takes_back": spec.revision, "start": False}), fleet.revision(48)
    with pytest.raises(Conflict) as caught:
        person.create_rollout(old)
    assert caught.value.detail["field"] == "takes_back"
    fleet.put_in_production(other)
    proposed = person.create_rollout(spec.model_copy(update={"takes_back": other, "start": False}))
    assert person.rollout(proposed.id).spec.takes_back == other
    fleet.put_in_production(fleet.revision(32))
    with pytest.raises(Conflict) as caught:
        person.start_rollout(proposed.id)
    assert caught.value.detail["field"] == "takes_back"


def test_a_second_rollout_of_a_pool_is_a_conflict(client: Make, spec: RolloutCreate) -> None:
    person = client(Scope.OPERATE)
    first = person.create_rollout(spec)
    with pytest.raises(Conflict) as caught:
        person.create_rollout(spec)
    assert caught.value.detail["rollout_id"] == first.id
    assert len(person.rollouts()) == 1
    proposed = person.create_rollout(spec.model_copy(update={"start": False}))
    with pytest.raises(Conflict):
        person.start_rollout(proposed.id)


def test_a_rollout_that_reaches_too_far_is_refused_at_each_way_to_begin(
    client: Make, spec: RolloutCreate, fleet: Any
) -> None:
    person = client(Scope.OPERATE)
    small = spec.model_copy(update={"max_blast": BlastLimit(nodes=2), "start": False})
    assert person.preview_blast_radius(small).nodes == 2
    proposed = person.create_rollout(small)
    assert person.blast_radius(proposed.id).nodes_at_once == 1
    fleet.add("c")
    with pytest.raises(Conflict, match=r"max_blast\.nodes: would be 3"):
        person.start_rollout(proposed.id)
    with pytest.raises(Conflict, match=r"max_blast\.nodes: would be 3"):
        person.create_rollout(small)
    assert [one.phase for one in person.rollouts()] == [RolloutPhase.PROPOSED]


def test_a_reach_is_not_told_of_what_nothing_can_be_judged_by(client: Make, spec: RolloutCreate) -> None:
    wrong = spec.model_copy(update={"limits": [Limit(metric="AAA", q=0.5, limit_s=1.0)]})
    with pytest.raises(BadRequest, match=r"limits\[0\]\.metric: no quantiles of 'AAA'"):
        client(Scope.READ).preview_blast_radius(wrong)


@pytest.fixture
def regions(spec: RolloutCreate, fleet: Any) -> RolloutCreate:
    """Two regions of two nodes each, and a node of none."""
    fleet.add("c", "d", "e")
    fleet.apply()
    for name, labels in {
        "a": {"region": "us-2", "gpu": "H100"},
        "b": {"region": "eu-1", "gpu": "A100"},
        "c": {"region": "us-2", "gpu": "A100"},
        "d": {"region": "eu-1", "gpu": "H100"},
    }.items():
        fleet.change(name, labels=labels)
    return spec.model_copy(update={"wave_by": "region", "min_judge_s": 10.0, "max_judge_s": 30.0})


def test_waves_go_region_by_region_as_the_dry_run_says(
    client: Make, regions: RolloutCreate, fleet: Any, tick: Callable[[datetime], None], start: datetime
) -> None:
    person = client(Scope.OPERATE)
    wanted = regions.model_copy(update={"canary_selector": "gpu in (H100, H200)", "wave_order": ["us-2"]})
    told = person.forecast_rollout(wanted)
    assert [(wave.named, wave.group) for wave in told.waves] == [
        (["a"], "us-2"),
        (["c"], "us-2"),
        (["b"], "eu-1"),
        (["d"], "eu-1"),
        (["e"], ""),
    ]
    assert told.says[0].startswith("1. 1 of 5 nodes (region us-2) as the canary")
    assert told.says[4].startswith("5. 5 of 5 nodes (without a label region)")
    assert person.rollouts() == []
    between = person.forecast_rollout(wanted.model_copy(update={"wave_soak_s": 600.0, "wave_pause": True}))
    assert [(wave.soak_s, wave.pauses) for wave in between.waves] == [(0, False), (600, True)] * 2 + [(0, False)]
    assert between.longest_s == told.longest_s + 2 * 600
    made = person.create_rollout(wanted)
    tick(start)
    begun = person.rollout(made.id)
    assert begun.canary_nodes == ["a"] and [wave.group for wave in begun.waves] == [wave.group for wave in told.waves]
    assert begun.spec.canary_selector == "gpu in (H100, H200)"
    fleet.change("c", labels={"region": "eu-1"})
    assert [wave.group for wave in person.rollout(made.id).waves] == ["us-2", "us-2", "eu-1", "eu-1", ""], (
        "a node is of the group that it had when the rollout began"
    )


def test_no_wave_reaches_further_than_its_region(client: Make, regions: RolloutCreate) -> None:
    person = client(Scope.OPERATE)
    wide = regions.model_copy(update={"stages": [Stage(share=0), Stage(share=1)]})
    assert person.preview_blast_radius(wide).nodes_at_once == 2
    assert person.preview_blast_radius(wide.model_copy(update={"wave_by": ""})).nodes_at_once == 4
    within = wide.model_copy(update={"max_blast": BlastLimit(nodes_at_once=2), "start": False})
    assert person.create_rollout(within).spec.wave_by == "region"


def test_what_matches_no_node_is_refused_with_the_labels_that_there_are(client: Make, regions: RolloutCreate) -> None:
    person = client(Scope.OPERATE)
    with pytest.raises(BadRequest) as caught:
        person.create_rollout(regions.model_copy(update={"canary_selector": "region=eu-9"}))
    assert caught.value.message == (
        "canary_selector: no serving node of pool 'chat' matches region=eu-9; its nodes have gpu=A100|H100, "
        "region=eu-1|us-2, and node, pool, role, backend"
    )
    with pytest.raises(
        BadRequest, match=r"wave_order\[0\]: no serving node of pool 'chat' has region=eu1, did you mean"
    ):
        person.create_rollout(regions.model_copy(update={"wave_order": ["eu1"]}))
    with pytest.raises(BadRequest, match=r"canary_selector: .*at character 8: wants a value"):
        person.create_rollout(regions.model_copy(update={"canary_selector": "region="}))
    assert person.rollouts() == []


def test_a_policys_labels_hold_where_the_rollout_says_nothing(
    client: Make, regions: RolloutCreate, database: Database, start: datetime
) -> None:
    policy = RolloutPolicyCreate(pool="chat", canary_selector="node=e", wave_by="gpu", wave_order=["H100", "B200"])
    with database.session() as session:
        policies.set_policy(session, policy, actor="ann", now=start)
    person = client(Scope.OPERATE)
    plain = regions.model_copy(update={"wave_by": ""})
    told = person.forecast_rollout(plain)
    assert [wave.group for wave in told.waves] == ["", "H100", "H100", "A100", "A100"], "the canary's group goes first"
    assert told.waves[0].named == ["e"] and told.rollout.spec.wave_order == ["H100", "B200"]
    made = person.create_rollout(plain.model_copy(update={"start": False}))
    person.cancel_rollout(made.id)
    again = person.change_rollout(made.id, RolloutAction.RETRY)
    assert again.spec.wave_order == ["H100", "B200"], "what the policy named then is no mistake of whoever retries"
    person.cancel_rollout(again.id)
    own = person.forecast_rollout(regions.model_copy(update={"canary_selector": "node=b"}))
    assert own.waves[0].named == ["b"] and own.rollout.spec.wave_by == "region"
