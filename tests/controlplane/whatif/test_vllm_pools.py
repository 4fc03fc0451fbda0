"""Pools of vLLM: what the twin is told of them, by the plugin's own events in the store, and when it is not asked."""

import json
import re
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import pytest
from fastapi.testclient import TestClient
from tailwright_vllm.records import BoundSteps, Finished, Gaps, Iteration, events_of

from controlplane.auth import store as tokens
from controlplane.contract.bodies.access import Scope
from controlplane.contract.bodies.configs import RevisionCreate
from controlplane.contract.errors import NotFound, Unavailable
from controlplane.contract.knobs import parse_config
from controlplane.contract.planning.whatif import TwinTask, WhatIfCreate
from controlplane.contract.reports.engine_event import EngineEvent
from controlplane.db.database import Database
from controlplane.fleet import store as fleet
from controlplane.telemetry.store import TelemetryStore
from controlplane.whatif.pool_telemetry import gathered
from controlplane.whatif.twin_desk import TwinDesk
from tests.controlplane.whatif.agent_events import report
from tests.controlplane.whatif.asked_app import asked_app
from tests.made_tables import create_tables

START = datetime(2026, 11, 24, 12, tzinfo=UTC)
NOW = START + timedelta(seconds=31)
CONFIG = parse_config({"max_num_batched_tokens": 2048, "max_num_seqs": 64})
BLOCKS = {"change_class": "restart", "start": 16, "values": [16, 32]}
PYTHON = Path("/opt/vllm/bin/python")

TWIN = """
import json, sys
task = json.load(sys.stdin)
told = {"arguments": sys.argv[1:], "engine": task["engine"], "knobs": task["asked"]["knobs"]}
print(json.dumps({"error": {"code": "not_found", "message": json.dumps(told), "detail": {}}}))
"""
"""Answers with what it was told."""


def request(name: str, *, arrived: float, scheduled: float, first: float, last: float) -> Iteration:
    """The iteration that ends a request; seconds since START."""
    one = Finished(
        name, "length", last - arrived, first - arrived, 0.1, scheduled - arrived - 0.1, first - scheduled,
        last - first, 0.0, 100, 20, 50,
    )  # fmt: skip
    return iteration(last, finished=[one])


def iteration(at_s: float, **told: Any) -> Iteration:
    none = dict.fromkeys(("running", "waiting", "batched_tokens", "preemptions", "prefix_queries", "prefix_hits"), 0)
    none |= {"draft_tokens": 8, "accepted_tokens": 6}
    lists: dict[str, Any] = {name: [] for name in ("accepted_per_position", "first_tokens", "gaps", "finished")}
    return Iteration(**{"time": START.timestamp() + at_s, "kv_usage": 0.25, **none, **lists, **told})


def counted(at_s: float, **steps: int) -> BoundSteps:
    return BoundSteps(START.timestamp() + at_s, steps)


SERVED = [
    iteration(3.0, gaps=[Gaps([0.01] * 7, 100, 20, 30)], draft_tokens=0, accepted_tokens=0),
    iteration(3.5, gaps=[Gaps([0.01] * 2, 900, 0, 2)], draft_tokens=0, accepted_tokens=0),
    request("a", arrived=0.5, scheduled=1.0, first=2.0, last=4.0),
    counted(4.5, no_work=20, chunk=10),
    counted(9.0, no_work=50),
    request("b", arrived=2.0, scheduled=3.0, first=3.5, last=12.0),
    counted(13.0, kv_memory=20),
]


def events(records: list[Iteration | BoundSteps]) -> list[EngineEvent]:
    found: list[Any] = []
    for record in records:
        found += events_of(len(found) + 1, record, 1)
    return cast(list[EngineEvent], found)


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    made = Database(f"sqlite:///{tmp_path_factory.mktemp('whatif') / 'tailwright.db'}")
    create_tables(made)
    yield made
    made.close()


@pytest.fixture(scope="module")
def store(database: Database) -> Iterator[TelemetryStore]:
    """Pools of vLLM: with the plugin's scheduler, without it, and of two nodes."""
    made = TelemetryStore(database, lambda: NOW)
    made.start()
    report(made, events(SERVED), "gpu-1", "chat")
    report(made, events([one for one in SERVED if isinstance(one, Iteration)]), "gpu-2", "plain")
    for node, last in (("gpu-3", 4.0), ("gpu-4", 2.5)):
        one = request(node, arrived=0.5, scheduled=1.0, first=2.0, last=last)
        report(made, events([one, counted(4.5, no_work=10)]), node, "two")
    drafts = {"draft_tokens": 5, "accepted_tokens": 3, "accepted_per_position": [2, 1, 0]}
    one = iteration(2.0, **drafts, drafted_per_position=[2, 2, 1])
    report(made, events([one, one, counted(4.5, no_work=2)]), "gpu-5", "places")
    report(made, events([iteration(2.0), counted(4.5, no_work=1)]), "gpu-6", "places")
    yield made
    made.close()


def task_of(store: TelemetryStore, pool: str, *not_serving: str) -> TwinTask:
    return gathered(store, WhatIfCreate(pool=pool, window_s=60), CONFIG, 1, not_serving, "vllm")


def test_steps_are_counted_and_took_as_long_as_requests_were_computed(store: TelemetryStore) -> None:
    task = task_of(store, "chat")
    assert (task.engine, len(task.records)) == ("vllm", 2)
    begin_s = START.timestamp()
    assert [(one.node, one.start_s - begin_s, one.steps, one.drafted, one.accepted) for one in task.windows] == [
        ("gpu-1", 0.0, 30, 8, 6),
        ("gpu-1", 5.0, 50, 0, 0),
        ("gpu-1", 10.0, 20, 8, 6),
    ]
    assert [one.seconds for one in task.windows] == pytest.approx([4.0, 5.0, 2.0], abs=1e-4)
    assert [one.kv_usage for one in task.windows] == [0.25, None, 0.25]
    assert [one.deliveries for one in task.windows] == [9, 0, 0], "of all prompts, however many tokens each had"
    assert [one.hash_ids for one in task.workload.requests] == [[], []], "vLLM tells no blocks of prompts"


def test_draft_tokens_are_told_by_their_place_of_nodes_that_serve_and_know_it(store: TelemetryStore) -> None:
    task = task_of(store, "places")
    assert (task.drafted_at, task.accepted_at) == ([4.0, 4.0, 2.0], [4.0, 2.0, 0.0])
    assert sum(one.drafted for one in task.windows) == 18, "all that were proposed, known place or not"
    assert task_of(store, "places", "gpu-5").drafted_at == [] == task_of(store, "chat").drafted_at


def test_without_the_plugin_the_missing_part_is_named(store: TelemetryStore) -> None:
    with pytest.raises(NotFound, match=r"plugin 0\.2\.0 .*--scheduler-cls, docs/vllm\.md"):
        task_of(store, "plain")


def test_where_nobody_served_nothing_is_said_to_be_missing(store: TelemetryStore) -> None:
    task = task_of(store, "plain", "gpu-2")
    assert (task.records, task.windows) == ([], [])


def test_a_node_is_busy_with_its_own_requests_alone(store: TelemetryStore) -> None:
    found = {one.node: one.seconds for one in task_of(store, "two").windows}
    assert found == pytest.approx({"gpu-3": 3.0, "gpu-4": 1.5}, abs=1e-4)
    assert [one.node for one in task_of(store, "two", "gpu-3").windows] == ["gpu-4"]


Api = Callable[[Path | None], TestClient]


@pytest.fixture(scope="module")
def api(database: Database, store: TelemetryStore, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    with database.session() as session:
        for node, pool, backend in (
            ("gpu-1", "chat", "vllm"),
            ("mixed-1", "mixed", "vllm"),
            ("mixed-2", "mixed", "embedded"),
            ("mixed-3", "mixed", "embedded"),
        ):
            row = fleet.place(session, node, pool=pool, role="serving", backend=backend, now=START)
            row.effective = {"revision": 0, "knobs": {"block_size": 16}, "declared": {"block_size": BLOCKS}}
            session.add(row)
        revision = fleet.create_revision(session, RevisionCreate(knobs=CONFIG.knobs()), "somebody", START)
        fleet.set_pool_revision(session, "chat", revision.number, START)
        _, token = tokens.issue(session, name="reader", scope=Scope.READ, now=START)
    script = tmp_path_factory.mktemp("twin") / "twin.py"
    script.write_text(TWIN)

    def serving(vllm_python: Path | None) -> TestClient:
        return asked_app(database, store, TwinDesk((sys.executable, str(script)), vllm_python), token, NOW)

    yield serving


def ask(client: TestClient, **asked: Any) -> tuple[int, dict[str, Any]]:
    answer = client.post("/api/v1/whatif", json={"pool": "chat", "window_s": 60, **asked})
    return answer.status_code, answer.json()["error"]


def test_the_twin_is_told_whose_scheduler_and_where_it_is(api: Api) -> None:
    knobs = {"max_num_batched_tokens": 512, "prefill_chunk_size": 256, "max_num_seqs": 8, "num_speculative_tokens": 3}
    status, error = ask(api(PYTHON), knobs=knobs)
    told = {"arguments": ["--vllm-python", str(PYTHON)], "engine": "vllm", "knobs": knobs}
    assert (status, json.loads(error["message"])) == (404, told)


@pytest.mark.parametrize(
    ("python", "asked", "field", "said"),
    [
        (None, {}, "pool", r"vllm_python \(--vllm-python\)"),
        (PYTHON, {"pool": "mixed"}, "pool", r"run embedded \(2\) and vllm \(1\)"),
        (None, {"pool": "mixed"}, "pool", r"embedded \(2\)"),
        (PYTHON, {"knobs": {"quantization": "int8"}}, "knobs.quantization", "max_num_seqs, num_speculative_tokens"),
        (PYTHON, {"knobs": {"block_size": 32}}, "knobs.block_size", "of vLLM knows max_num_batched_tokens.*a study"),
        (PYTHON, {"knobs": {"max_num_seq": 8}}, "knobs.max_num_seq", "max_num_seqs"),
        (PYTHON, {"knobs": {"max_num_seqs": 0}}, "knobs.max_num_seqs", "outside"),
    ],
    ids=["no python", "mixed", "mixed, no python", "format", "declared", "no knob", "out of range"],
)
def test_what_is_refused_names_the_mend(
    api: Api, python: Path | None, asked: dict[str, Any], field: str, said: str
) -> None:
    status, error = ask(api(python), **asked)
    assert (status, error["detail"]["field"]) == (400, field)
    assert re.search(said, error["message"])


def test_vllm_has_a_time_of_its_own(tmp_path: Path, store: TelemetryStore) -> None:
    hanging = tmp_path / "hanging.py"
    hanging.write_text("import threading\nthreading.Event().wait()\n")
    desk = TwinDesk((sys.executable, str(hanging)), PYTHON, timeout_s=30.0, vllm_timeout_s=0.2)
    with pytest.raises(Unavailable, match=r"longer than 0\.2 s"):
        task = task_of(store, "chat")
        desk.forecast(task.asked, lambda: task)
