"""`POST /api/v1/whatif`, from an agent's own reports in the store to the twin's process and back."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from fastapi.testclient import TestClient

from controlplane.app.service import TWIN
from controlplane.auth import store as tokens
from controlplane.contract.bodies.access import Scope
from controlplane.contract.bodies.configs import RevisionCreate
from controlplane.contract.bodies.nodes import ChangeCost, EffectiveConfig
from controlplane.contract.errors import Unavailable
from controlplane.contract.knobs import ChangeClass, parse_config
from controlplane.contract.planning.whatif import ForecastUnderWay, TwinTask, WhatIfCreate
from controlplane.db.database import Database
from controlplane.fleet import store as fleet
from controlplane.telemetry.store import TelemetryStore
from controlplane.whatif.twin_desk import TwinDesk
from tests.controlplane.whatif.agent_events import report
from tests.controlplane.whatif.asked_app import asked_app
from tests.made_tables import create_tables
from tests.tuner.served_pool import START, Served, traffic

CONFIG = parse_config({"max_num_batched_tokens": 256, "max_num_seqs": 16})


@pytest.fixture(scope="module")
def served() -> Served:
    return Served(traffic(seed=5, requests=330, per_s=3.0), CONFIG)


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory, served: Served) -> Iterator[TestClient]:
    database = Database(f"sqlite:///{tmp_path_factory.mktemp('whatif') / 'tailwright.db'}")
    create_tables(database)
    now = served.workload.end
    with database.session() as session:
        fleet.place(session, "gpu-1", pool="chat", role="serving", backend="embedded", now=START)
        fleet.place(session, "big-1", pool="large", role="serving", backend="vllm", now=START)
        fleet.place(session, "new-1", pool="new", role="serving", backend="embedded", now=START)
        revision = fleet.create_revision(session, RevisionCreate(knobs=CONFIG.knobs()), "somebody", START)
        fleet.set_pool_revision(session, "chat", revision.number, START)
        runs = EffectiveConfig(
            revision=1,
            knobs=CONFIG.knobs(),
            live_limits={"max_num_seqs": 16},
            costs={ChangeClass.RESTART: ChangeCost(count=1, last_s=11, mean_s=9, warm_ups=1, warm_up_s=2)},
        )
        fleet.row_of(session, "gpu-1").effective = runs.model_dump(mode="json")
        _, token = tokens.issue(session, name="reader", scope=Scope.READ, now=START)
    store = TelemetryStore(database, lambda: now + timedelta(seconds=1))
    store.start()
    report(store, served.events(), "gpu-1", "chat")
    twin = TwinDesk(TWIN, timeout_s=240.0)  # A busy machine is slow, not wrong.
    with asked_app(database, store, twin, token, now) as client:
        yield client
    store.close()
    database.close()


@pytest.fixture
def answered_by(api: TestClient) -> Iterator[Callable[[Any], None]]:
    """Has another than the twin asked."""
    state: Any = api.app.state  # type: ignore[attr-defined]
    service = state.service

    def put(forecast: Any) -> None:
        twin: Any = SimpleNamespace(forecast=forecast, vllm_python=None)
        state.service = replace(service, twin=twin)

    yield put
    state.service = service


def ask(api: TestClient, status: int, **asked: Any) -> Any:
    answer = api.post("/api/v1/whatif", json={"pool": "chat", **asked})
    assert answer.status_code == status, answer.text
    return answer.json()


@pytest.mark.slow
def test_a_forecast_comes_of_what_agents_reported(api: TestClient) -> None:
    answer = ask(api, 200, load=1.5, window_s=150)
    assert answer["forecast_class"] in ("calibrated", "extrapolated") and "no proof" in answer["summary"]
    assert answer["as_is"]["replicas"] == 1 and answer["revision"] == 1
    assert abs(answer["error"]["tpot:0.5"]) < 0.1
    now, then = (answer[name]["quantiles"]["ttft:0.95"] for name in ("as_is", "changed"))
    assert then["low_s"] <= then["value_s"] <= then["high_s"] and then["value_s"] > now["value_s"]
    assert answer["changed"]["busy"] > answer["as_is"]["busy"]


@pytest.mark.slow
def test_the_change_itself_is_told_by_what_such_changes_took_on_the_nodes(api: TestClient) -> None:
    """Up to 16 sequences its node changes live, beyond it is started again: 9 s, and 2 to warm up."""
    assert ask(api, 200, load=1.5, window_s=150)["change"] is None
    assert ask(api, 200, knobs={"max_num_seqs": 12}, window_s=150)["change"]["change_class"] == "live"
    answer = ask(api, 200, knobs={"max_num_seqs": 32}, window_s=150)
    change = answer["change"]
    assert (change["change_class"], change["seconds"], change["each_s"]) == ("restart", 11, 11)
    assert change["unserved"] == change["requests"] > 10 and "while no node serves" in answer["summary"]
    more = ask(api, 200, replicas=2, window_s=150)
    assert (more["change"]["change_class"], more["change"]["seconds"]) == (None, 11)
    assert "1 more node has started" in more["summary"] and more["change"]["quantiles"]["ttft:0.95"]["value_s"] > 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("asked", "status", "said"),
    [
        ({"pool": "nobody"}, 404, "no pool"),
        ({"pool": "new"}, 404, "no revision in production"),
        ({"pool": "large"}, 400, "--vllm-python"),
        ({"knobs": {"max_num_seq": 3}}, 400, "max_num_seqs"),
        ({"knobs": {"max_num_seqs": 0}}, 400, "outside"),
        ({"knobs": {"quantization": "int8"}, "window_s": 150}, 400, "int8"),
        ({"window_s": 30}, 404, "window_s"),
    ],
    ids=["no pool", "no revision", "vllm", "no knob", "out of range", "another format", "too little"],
)
def test_what_cannot_be_forecast_says_why(api: TestClient, asked: dict[str, Any], status: int, said: str) -> None:
    assert said in ask(api, status, **asked)["error"]["message"]


def test_a_metric_that_there_is_not_is_named_with_the_nearest(api: TestClient) -> None:
    error = ask(api, 400, good={"tfft": 1})["error"]
    assert error["detail"]["field"] == "body.good.tfft"
    assert error["message"] == (
        "body.good.tfft: input should be 'ttft', 'tpot' or 'e2e' (did you mean 'ttft'?), got 'tfft'"
    )


def test_others_write_while_the_twin_computes(api: TestClient, answered_by: Callable[[Any], None]) -> None:
    """For as long as the twin took, agents' reports and workers' heartbeats waited, and gave up after half a minute."""
    service: Any = api.app.state.service  # type: ignore[attr-defined]

    def writes_beside(asked: WhatIfCreate, gather: Callable[[], TwinTask], wait_s: float | None) -> None:
        task = gather()
        with closing(sqlite3.connect(service.database.engine.url.database, timeout=0)) as other:
            other.execute("BEGIN IMMEDIATE")
        raise Unavailable(f"asked about {task.asked.pool}")

    answered_by(writes_beside)
    assert "asked about chat" in ask(api, 503, window_s=150)["error"]["message"]


def test_who_waits_no_longer_is_told_how_far_it_is(api: TestClient, answered_by: Callable[[Any], None]) -> None:
    waited: list[float | None] = []

    def under_way(asked: WhatIfCreate, gather: Callable[[], TwinTask], wait_s: float | None) -> ForecastUnderWay:
        waited.append(wait_s)
        return ForecastUnderWay(elapsed_s=1.5, usual_s=12.0, limit_s=60.0)

    answered_by(under_way)
    answer = api.post("/api/v1/whatif", json={"pool": "chat"}, params={"wait_s": 0})
    assert (answer.status_code, answer.json()) == (202, {"elapsed_s": 1.5, "usual_s": 12.0, "limit_s": 60.0})
    assert api.post("/api/v1/whatif", json={"pool": "chat"}, params={"wait_s": 61}).status_code in (400, 422)
    assert waited == [0.0]


def test_more_configurations_are_asked_for_without_intervals_alone(api: TestClient) -> None:
    others = [{"max_num_seqs": count} for count in range(1, 18)]
    refused = ask(api, 400, others=others)["error"]
    assert "others: wants 16 at most, got 17; with intervals=false 64" in refused["message"]
    assert len(ask(api, 200, others=others, intervals=False)["others"]) == 17
    ask(api, 400, others=others * 4, intervals=False)
