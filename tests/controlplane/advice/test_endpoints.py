"""`GET /api/v1/advice` of a whole service in process, from what nodes reported over HTTP."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, cast
from urllib.parse import parse_qsl, urlsplit

import pytest
from fastapi.testclient import TestClient
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

from controlplane.api.body_examples import EXAMPLES
from controlplane.app.service import create_app
from controlplane.app.settings import ServiceSettings
from controlplane.contract import metrics
from controlplane.contract.bodies.configs import RevisionCreate
from controlplane.contract.bodies.rollouts import RolloutPhase
from controlplane.contract.bodies.studies import StudyCreate
from controlplane.contract.bodies.workload import WorkloadRequest
from controlplane.contract.errors import BadRequest
from controlplane.contract.knobs import EngineConfig
from controlplane.contract.planning.traffic_mix import mix_of, packed_mix
from controlplane.contract.step_limits import StepLimit
from controlplane.fleet import store as fleet
from controlplane.fleet.tables import NodeRow
from controlplane.rollouts.tables import RolloutRow
from controlplane.studies.tables import StudyPlanRow, StudyRow
from tests.controlplane.telemetry.conftest import START, Report, request_spans
from tuner.workload.trace import workload_of
from web.studies.wanted_study import wanted_study

SHAPE = EXAMPLES["HardwareCreate"]["a model by its sizes, with so many always under way"].model_dump()["model"]
NOW = START + timedelta(minutes=10)
RUNS = {"revision": 1, "knobs": {"quantization": "int8"}, "shape": SHAPE}
SPAN = {"start": START.isoformat(), "end": NOW.isoformat()}
PROTOBUF = {"Content-Type": "application/x-protobuf"}
WINDOWS = 120


def window(node: str, place: int, pool: str = "chat", **labels: str) -> Report:
    """Ten requests in five seconds, which queued a fifth of their time; the steps ran as many as may, half of them."""
    report = Report(node, pool, start=START + timedelta(seconds=5 * place))
    for metric, seconds in ((metrics.QUEUE, 0.2), (metrics.PREFILL, 0.3), (metrics.DECODE, 0.5), (metrics.E2E, 1.0)):
        report.histogram([seconds] * 10, metric.name, prompt_bucket="<=128", **labels)
    report.histogram([0.5] * 9 + [0.9], metrics.TTFT.name, prompt_bucket="<=128", **labels)
    report.histogram([0.01] * 90 + [0.1] * 10, metrics.ITL.name, prompt_bucket="<=128", **labels)
    report.histogram([0.04] * 100, metrics.STEP_FORWARD.name, **labels)
    report.histogram([0.005] * 100, metrics.STEP_SAMPLE.name, **labels)
    for metric, amount in (
        (metrics.PROMPT_TOKENS, 1000),
        (metrics.OUTPUT_TOKENS, 500),
        (metrics.PREFIX_QUERIES, 1000),
        (metrics.PREFIX_HITS, 250),
        (metrics.ESTIMATED_FLOPS, 4_000_000 * (1 + place % 3)),
        (metrics.ESTIMATED_READ_BYTES, 900_000),
        (metrics.ESTIMATED_WRITE_BYTES, 100_000),
    ):
        report.number(metric.name, amount, **labels)
    for limit, steps in ((StepLimit.MAX_NUM_SEQS, 50), (StepLimit.NO_WORK, 50)):
        report.number(metrics.STEP_LIMIT.name, steps, limit=limit.value, **labels)
    for metric, value in ((metrics.WAITING, float(place % 2)), (metrics.RUNNING, 8.0), (metrics.KV_USAGE, 0.4)):
        report.number(metric.name, value, kind="gauge", **labels)
    return report


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    folder: Path = tmp_path_factory.mktemp("advice")
    app = create_app(ServiceSettings(data_dir=folder, log_level="error"), lambda: NOW)
    service = app.state.service
    with service.database.session() as session:
        for node, pool in (("gpu-1", "chat"), ("gpu-2", "chat"), ("idle-1", "quiet"), ("new-1", "young")):
            fleet.place(session, node, pool=pool, role="serving", backend="embedded", now=START)
            if pool != "young":
                row = session.get(NodeRow, node)
                assert row is not None
                row.effective = RUNS
        fleet.place(session, "try-1", pool="chat-trial", role="trial", backend="embedded", now=START)
        revision = fleet.create_revision(session, RevisionCreate(knobs=EngineConfig().knobs()), "somebody", START)
        fleet.set_pool_revision(session, "chat", revision.number, START)
    service.telemetry.start()
    headers = {"Authorization": f"Bearer {(folder / 'admin-token').read_text().strip()}"}
    client = TestClient(app, headers=headers)
    sent = ExportMetricsServiceRequest()
    for place in range(WINDOWS):
        for node in ("gpu-1", "gpu-2"):
            sent.resource_metrics.extend(window(node, place).request.resource_metrics)
        sent.resource_metrics.extend(window("try-1", place, role="trial").request.resource_metrics)
    for place in range(3):
        sent.resource_metrics.extend(window("new-1", place, "young").request.resource_metrics)
    assert client.post("/v1/metrics", content=sent.SerializeToString(), headers=PROTOBUF).status_code == 200
    alike = [
        {"id": f"r{place}", "arrival": START + timedelta(seconds=place), "prompt": 64, "hashes": [1, 2, 100 + place]}
        for place in range(300)
    ]
    spans = request_spans("gpu-1", alike).SerializeToString()
    assert client.post("/v1/traces", content=spans, headers=PROTOBUF).status_code == 200
    yield client
    service.telemetry.close()
    service.database.close()


def ask(api: TestClient, status: int = 200, **params: Any) -> Any:
    answer = api.get("/api/v1/advice", params={"pool": "chat", **SPAN, **params})
    assert answer.status_code == status, answer.text
    return answer.json()


@pytest.mark.slow
def test_what_bound_the_steps_and_who_waited(api: TestClient) -> None:
    found = ask(api)["binds"]
    assert {one["limit"]: one["share"] for one in found["shares"]} == {"max_num_seqs": 0.5, "no_work": 0.5}
    assert found["queued"] and found["waiting_share"] == pytest.approx(0.5)
    assert found["busy_share"] == pytest.approx(0.9, rel=0.01)
    assert found["host_share"] == pytest.approx(1 / 9, rel=0.01)
    assert "50.0 % of the steps were bound, most by max_num_seqs" in found["sentence"] and found["missing"] == []


def test_flops_and_bytes_are_those_of_one_gpu_of_the_nodes_that_serve(api: TestClient) -> None:
    found = ask(api)["binds"]["roofline"]
    assert found["flops_per_byte"] == pytest.approx(8.0) and found["bytes_per_s"] == pytest.approx(1e6 / 5)
    assert found["compute"]["share"] < 0.1, "steps took as long however many FLOPs there were"
    assert found["binds"] == "bandwidth" and found["at_full_rate"] is None


def test_the_worksheet_is_of_what_serving_nodes_told(api: TestClient) -> None:
    """What a trial node replays is no traffic."""
    sheet = ask(api, peak=3)["worksheet"]
    assert (sheet["requests"], sheet["nodes"], sheet["measured_s"]) == (2 * 10 * WINDOWS, 2, 600.0)
    assert sheet["requests_per_s"] == {"mean": 4.0, "peak": 4.0}
    assert sheet["prompt_tokens_per_s"]["mean"] == 400.0 and sheet["output_tokens_per_s"]["peak"] == 200.0
    assert sheet["cached_share"] == 0.25 and sheet["output_tokens_per_node_s"] == 100.0
    assert sheet["node_hours"] == pytest.approx(1 / 3)
    assert sheet["node_hours_per_million"] == pytest.approx(1e6 / 120_000 / 3)
    assert sheet["ttft_p95_s"] == pytest.approx(0.9, rel=0.03)
    assert sheet["at_peak"]["nodes"] == 6 and sheet["at_peak"]["requests_per_s"] == 12.0
    assert sheet["at_peak"]["in_flight"] == pytest.approx(12.0, rel=0.01)
    assert sheet["at_peak"]["buffer_nodes"] is None, "nobody has measured a restart"


def test_techniques_are_ranked_by_what_they_could_touch(api: TestClient) -> None:
    answer = ask(api)
    found = {one["technique"]: one for one in answer["techniques"]}
    assert answer["state"] == "advised" and set(found) == {
        *("replica", "max_num_seqs", "kv_memory", "step_budget"),
        *("prefix_caching", "speculation", "quantization"),
    }
    assert answer["techniques"][0]["technique"] == "replica"
    assert found["replica"]["touches"] == pytest.approx(1.0, rel=0.01)
    assert found["max_num_seqs"]["touches"] == pytest.approx(0.2, rel=0.01), "all that waited, waited for a seat"
    assert found["kv_memory"]["fits"] == "nothing"
    assert found["speculation"]["touches"] == pytest.approx(0.5 * 8 / 9, rel=0.01)
    # Of 64 tokens 32 are a beginning that all but the first share; a quarter was found.
    share = (32 * 299 / (64 * 300) - 0.25) / 0.75
    assert found["prefix_caching"]["touches"] == pytest.approx(0.3 * share, rel=0.01)
    assert found["replica"]["forecast"] == "/whatif?pool=chat&replicas=3&ask=1"


def test_a_study_that_proves_one_is_a_form_without_problems(api: TestClient) -> None:
    addresses = [one["study"] for one in ask(api)["techniques"] if one["study"]]
    assert len(addresses) >= 2
    for address in addresses:
        read = wanted_study(dict(parse_qsl(urlsplit(address).query, strict_parsing=True)))
        assert read.problems == {} and read.study is not None and read.study.pool == "chat"


def promoted(api: TestClient, prompt: int, *, phase: RolloutPhase = RolloutPhase.PROMOTED, at: datetime = NOW) -> int:
    """A study of pool chat that was measured on prompts of so many tokens, and whose rollout is so far; its number."""
    told = [
        WorkloadRequest(timestamp=1000.0 * place, input_length=prompt, output_length=20, hash_ids=[1, 2, 100 + place])
        for place in range(310)
    ]
    plan = EXAMPLES["StudyPlan"]["what a study replays"].model_copy(
        update={"mix": packed_mix(mix_of(workload_of(told)))}
    )
    with cast(Any, api.app).state.service.database.session() as session:
        rollout = RolloutRow(pool="chat", phase=phase.value, spec={}, created_by="w", created_at=START, ended_at=at)
        session.add(rollout)
        session.flush()
        spec = StudyCreate(pool="chat", objective="ttft").model_dump(mode="json")
        study = StudyRow(
            pool="chat", state="finished", spec=spec, created_by="w", created_at=START, rollout_id=rollout.id
        )
        session.add(study)
        session.flush()
        assert study.id is not None
        session.add(StudyPlanRow(study_id=study.id, plan=plan.model_dump(mode="json")))
        return study.id


def test_traffic_that_has_drifted_since_the_last_promoted_study_is_told(api: TestClient) -> None:
    assert ask(api)["mix"] is None, "never tuned"
    alike = promoted(api, 64, at=NOW - timedelta(hours=2))
    promoted(api, 640, phase=RolloutPhase.ROLLED_BACK)
    found = ask(api)["mix"]
    assert (found["study_id"], found["state"], found["study"]) == (alike, "alike", "")
    drifted = promoted(api, 640, at=NOW - timedelta(hours=1))
    found = ask(api)["mix"]
    assert (found["study_id"], found["state"]) == (drifted, "drifted")
    assert {one["part"]: one["drifted"] for one in found["parts"]} == {
        "prompts": True,
        "prefixes": True,
        "answers": False,
        "arrivals": False,
    }
    assert "prompts are shorter" in found["says"] and found["study"].startswith("/studies/new?pool=chat&objective=ttft")


def test_an_idle_and_a_barely_measured_pool_are_not_advised_on(api: TestClient) -> None:
    idle, young = ask(api, pool="quiet"), ask(api, pool="young")
    assert idle["state"] == "idle" and idle["techniques"] == [] and "Nothing binds" in idle["binds"]["sentence"]
    assert young["state"] == "too_little" and young["techniques"] == [] and "Only 30 requests" in young["because"]


@pytest.mark.parametrize(
    ("params", "status", "field"),
    [
        ({"pool": ""}, 400, "pool"),
        ({"pool": "nobody"}, 404, "pool"),
        ({"pool": "chat-trial"}, 404, "pool"),
        ({"start": "2026-01-01T00:00:00Z"}, 400, "window"),
        ({"peak": "0.5"}, 400, "query.peak"),
        ({"queue": "1"}, 400, "queue"),
    ],
    ids=["no pool", "unknown pool", "trial nodes alone", "over a week", "a peak below one", "no such parameter"],
)
def test_what_cannot_be_answered_names_the_parameter(
    api: TestClient, params: dict[str, str], status: int, field: str
) -> None:
    assert ask(api, status, **params)["error"]["detail"]["field"] == field


def forecast(api: TestClient, status: int = 200, **asked: Any) -> Any:
    answer = api.post("/api/v1/hardware", json=asked)
    assert answer.status_code == status, answer.text
    return answer.json()


def test_other_hardware_is_forecast_for_the_pools_own_model_and_traffic(api: TestClient) -> None:
    """A mean request of 100 tokens in and 50 out, a quarter cached, four a second in the busiest minute."""
    found = forecast(api, pool="chat", accelerators=["h200"], tensor_parallel=[2], tpot_limit_ms=20)
    assert found["model"] == SHAPE and found["model_of"] == "gpu-1" and found["weights"] == "fp8"
    assert (found["prompt"], found["output"], found["cached"], found["rate"]) == (100.0, 50.0, 0.25, 4.0)
    assert found["notes"][0].startswith("int8 weights are forecast as fp8's")
    (row,) = found["items"]
    assert row["replicas"] == 1 and row["high_s"] <= 0.02 and row["forecast_class"] == "calibrated"
    assert row["tokens_per_s"] == pytest.approx(200, rel=1e-6)
    own = forecast(api, pool="chat", accelerators=["h200"], tensor_parallel=[2], rate=40, prompt=2000, weights="bf16")
    assert (own["prompt"], own["rate"], own["weights"], own["output"]) == (2000.0, 40.0, "bf16", 50.0)
    assert own["items"][0]["first_token_s"] > row["first_token_s"]


def test_others_write_while_other_hardware_is_forecast(api: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    service: Any = api.app.state.service  # type: ignore[attr-defined]
    said = []

    def writes_beside(*_: Any) -> None:
        with closing(sqlite3.connect(service.database.engine.url.database, timeout=0)) as other:
            other.execute("BEGIN IMMEDIATE")
            said.append("written")
        raise BadRequest("that will do", field="pool")

    monkeypatch.setattr("controlplane.advice.endpoints.forecast", writes_beside)
    forecast(api, 400, pool="chat")
    assert said == ["written"]


def test_other_hardware_needs_no_pool_where_all_is_said(api: TestClient) -> None:
    found = forecast(api, model=SHAPE, weights="fp8", prompt=1024, output=512, concurrency=8)
    assert found["model_of"] == "" and found["rate"] is None and found["concurrency"] == 8
    assert {(row["accelerator"], row["tensor_parallel"]) for row in found["items"]} >= {("h100", 1), ("b300", 8)}


def test_what_is_asked_for_twice_is_answered_once(api: TestClient) -> None:
    asked = {"model": SHAPE, "weights": "fp8", "prompt": 1024, "output": 512, "concurrency": 8}
    found = forecast(api, **asked, accelerators=["h200"] * 16, tensor_parallel=[2] * 16)
    assert len(found["items"]) == 1


@pytest.mark.parametrize(
    ("asked", "status", "field"),
    [
        ({"pool": "nobody"}, 404, "pool"),
        ({"pool": "young"}, 400, "model"),
        ({"pool": "quiet"}, 400, "prompt"),
        ({"model": SHAPE, "prompt": 1, "output": 1}, 400, "rate"),
        ({"pool": "chat", "accelerators": ["h10"]}, 400, "accelerators"),
        ({"pool": "chat", "tensor_parallel": [3]}, 400, "tensor_parallel"),
        ({"pool": "chat", "concurrency": 4, "rate": 4}, 400, "concurrency"),
        ({"pool": "chat", "window_s": 700_000}, 400, "body.window_s"),
        ({"model": {**SHAPE, "latents": 3}}, 400, "body.model.latents"),
    ],
)
def test_what_cannot_be_forecast_names_the_field(
    api: TestClient, asked: dict[str, Any], status: int, field: str
) -> None:
    assert forecast(api, status, **asked)["error"]["detail"]["field"] == field
