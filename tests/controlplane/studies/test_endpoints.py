"""The studies' endpoints, as the typed client calls them; each bad field is named."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from fastapi import FastAPI
from httpx import Response

from controlplane.client import Client
from controlplane.contract.bodies.access import Scope
from controlplane.contract.bodies.slo import Limit
from controlplane.contract.bodies.studies import (
    KnobRange,
    Objective,
    StudyCreate,
    StudyFinish,
    StudyHeartbeat,
    StudyState,
    TrialReport,
    TrialState,
)
from controlplane.contract.errors import BadRequest, Conflict, Forbidden, KnobOutOfRange, NotFound, UnknownKnob
from controlplane.contract.planning.online_mode import OnlineMode
from controlplane.contract.planning.trial_leases import NodeWanted, TrialWanted
from tests.controlplane.db.keyed_route import KeyedConformance, KeyedRoute

Make = Callable[[Scope], Client]
CAREFUL = OnlineMode()
TTFT = Limit(metric="ttft", q=0.95, limit_s=1)
FORMATS = {"quantization": KnobRange(choices=["none", "int8"])}


class TestStudiesAreMadeOnceByTheirKey(KeyedConformance):
    @pytest.fixture
    def route(self, client: Make, spec: StudyCreate, clock: Any) -> KeyedRoute:
        person, another = client(Scope.OPERATE), client(Scope.OPERATE)

        def send(key: str | None, changes: dict[str, Any], by_another: bool) -> Response:
            body = {**spec.model_dump(mode="json"), **changes}
            headers = {"Idempotency-Key": key} if key else {}
            http = (another if by_another else person)._http
            return http.post("/api/v1/studies", json=body, headers=headers)

        def pass_time(span: timedelta) -> None:
            clock.pass_s(span.total_seconds())

        return KeyedRoute(send, lambda: len(person.studies()), pass_time, refused={"pool": "nowhere"})

    def test_the_client_sends_it(self, client: Make, spec: StudyCreate) -> None:
        person = client(Scope.OPERATE)
        made = person.create_study(spec, key="mine")
        assert person.create_study(spec, key="mine") == made and person.studies() == [made]
        person.cancel_study(made.id)
        assert person.create_study(spec, key="mine") == made, "as it was answered then"
        with pytest.raises(Conflict, match="Idempotency-Key"):
            person.create_study(spec.model_copy(update={"reason": "another"}), key="mine")


def test_a_worker_takes_a_study_from_the_queue_to_its_end(client: Make, spec: StudyCreate) -> None:
    person = client(Scope.OPERATE)
    assert person.claim_study("w") is None
    created = person.create_study(spec)
    assert (created.state, created.created_by) == (StudyState.QUEUED, "operate")
    claimed = person.claim_study("w")
    assert claimed is not None and claimed.worker == "w"
    token = person.take_trial_node(created.id, NodeWanted(worker="w", node="t")).token
    for number in range(3):
        person.take_trial(created.id, token, TrialWanted(number=number, knobs={}))
        report = TrialReport(number=number, knobs={}, state=TrialState.COMPLETE, feasible=True)
        person.report_trial(created.id, token, report)
    assert [trial.number for trial in person.trials(created.id)] == [2, 1, 0]
    assert person.heartbeat_study(created.id, StudyHeartbeat(worker="w", progress="almost")).progress == "almost"
    ended = person.finish_study(created.id, StudyFinish(worker="w", error="the trial node has gone"))
    assert (ended.state, ended.error, ended.trials_done) == (StudyState.FAILED, "the trial node has gone", 3)
    assert person.study(created.id) == ended
    assert [study.id for study in person.studies()] == [created.id]


def test_cancel_and_scopes(client: Make, spec: StudyCreate) -> None:
    person, reader = client(Scope.OPERATE), client(Scope.READ)
    created = person.create_study(spec)
    for forbidden in (
        lambda: reader.create_study(spec),
        lambda: reader.claim_study("w"),
        lambda: reader.cancel_study(created.id),
    ):
        with pytest.raises(Forbidden):
            forbidden()
    assert reader.study(created.id) == created
    assert person.cancel_study(created.id).state is StudyState.CANCELLED
    with pytest.raises(NotFound):
        person.study(77)


@pytest.mark.parametrize(
    ("changes", "error", "field"),
    [
        ({"pool": "nobody"}, BadRequest, "pool"),
        ({"pool": "idle"}, BadRequest, "pool"),
        ({"objective": "e3e"}, BadRequest, "objective"),
        ({"objective": "requests"}, BadRequest, "objective"),
        ({"objective": "queue"}, BadRequest, "objective"),
        ({"objective": "goodput"}, BadRequest, "constraints"),
        ({"objective": "max_load"}, BadRequest, "constraints"),
        ({"also": [Objective(objective="cost")]}, BadRequest, "constraints"),
        ({"also": [Objective(objective="queue")]}, BadRequest, "also[0].objective"),
        ({"also": [Objective(objective="tpot"), Objective(objective="tpot")]}, BadRequest, "also[1]"),
        ({"also": [Objective(objective="e2e")]}, BadRequest, "also[0]"),
        ({"node_hour_price": 2.0}, BadRequest, "currency"),
        ({"currency": "EUR"}, BadRequest, "node_hour_price"),
        ({"constraints": [Limit(metric="prefill", q=0.9, limit_s=1)]}, BadRequest, "constraints[0].metric"),
        ({"constraints": [Limit(metric="tttft", q=0.9, limit_s=1)]}, BadRequest, "constraints[0].metric"),
        ({"space": {"max_seqs": KnobRange(minimum=1, maximum=2)}}, UnknownKnob, "space.max_seqs"),
        ({"space": {"max_num_seqs": KnobRange(minimum=0, maximum=2)}}, KnobOutOfRange, "space.max_num_seqs"),
        ({"space": {"max_num_seqs": KnobRange(minimum=1, maximum=9999)}}, KnobOutOfRange, "space.max_num_seqs"),
        ({"space": {"max_num_seqs": KnobRange(minimum=8, maximum=4)}}, KnobOutOfRange, "space.max_num_seqs.minimum"),
        ({"space": {"max_num_seqs": KnobRange(choices=[])}}, KnobOutOfRange, "space.max_num_seqs.choices"),
        ({"space": {"max_num_seqs": KnobRange(choices=[4, "x"])}}, KnobOutOfRange, "space.max_num_seqs"),
        ({"suggested": [{}, {"max_seqs": 1}]}, UnknownKnob, "suggested[1].max_seqs"),
        ({"suggested": [{"max_num_seqs": 0}]}, KnobOutOfRange, "suggested[0].max_num_seqs"),
        ({"space": {"quantization": KnobRange(minimum=0, maximum=1)}}, KnobOutOfRange, "space.quantization"),
        ({"space": {"quantization": KnobRange(choices=["int9"])}}, KnobOutOfRange, "space.quantization"),
        (
            {"space": {"prefill_chunk_size": KnobRange(minimum=0, maximum=64, log=True)}},
            KnobOutOfRange,
            "space.prefill_chunk_size.minimum",
        ),
        ({"rollout": {"canary_shares": 0.1}}, BadRequest, "rollout.canary_shares"),
        ({"rollout": {"emergency": True}}, BadRequest, "rollout.emergency"),
        ({"rollout": {"canary_share": 0.9}}, BadRequest, "rollout.canary_share"),
        ({"rollout": {"tolerance": True}}, BadRequest, "rollout.tolerance"),
        ({"rollout": {"levels": {"ttft": [0.5, "0.9"]}}}, BadRequest, "rollout.levels.ttft.1"),
        ({"rollout": {"study_step": 3}}, BadRequest, "rollout.study_step"),
        ({"online": CAREFUL, "objective": "goodput", "constraints": [TTFT]}, BadRequest, "objective"),
        ({"online": CAREFUL, "load": 2.0}, BadRequest, "load"),
        ({"online": CAREFUL, "suggested": [{"max_num_seqs": 4}]}, BadRequest, "suggested"),
        ({"seed": -1}, BadRequest, "seed"),
        ({"seed": 2**31}, BadRequest, "seed"),
        ({"online": CAREFUL, "evaluation": "mmlu"}, BadRequest, "evaluation"),
        ({"online": CAREFUL, "auto_start_rollout": True}, BadRequest, "auto_start_rollout"),
        ({"online": CAREFUL, "rollout": {"on_inconclusive": "hold"}}, BadRequest, "rollout.on_inconclusive"),
        ({"online": CAREFUL, "rollout": {"only_better": False}}, BadRequest, "rollout.only_better"),
        ({"online": CAREFUL, "space": FORMATS}, BadRequest, "space.quantization"),
    ],
)
def test_each_wrong_field_is_named(
    client: Make, spec: StudyCreate, changes: dict[str, Any], error: type[BadRequest], field: str
) -> None:
    with pytest.raises(error) as caught:
        client(Scope.OPERATE).create_study(spec.model_copy(update=changes))
    assert caught.value.detail["field"] == field


def test_a_study_in_production_is_no_workers(app: FastAPI, client: Make, spec: StudyCreate) -> None:
    person = client(Scope.OPERATE)
    made = person.create_study(spec.model_copy(update={"online": CAREFUL}))
    assert made.progress == "waits for its first step" and made.spec.online == CAREFUL
    assert person.claim_study("w") is None
    with pytest.raises(Conflict, match="has no trial node"):
        person.take_trial_node(made.id, NodeWanted(worker="w", node="t"))
    other = person.create_study(spec)
    claimed = person.claim_study("w")
    assert claimed is not None and claimed.id == other.id  # It holds up nobody.

    def forbid(*_: object) -> None:
        raise Forbidden("pool: not you", field="Authorization")

    app.state.service = replace(app.state.service, may_tune=forbid)
    with pytest.raises(Forbidden, match="not you"):
        person.create_study(spec.model_copy(update={"online": CAREFUL}))
    assert person.create_study(spec).spec.online is None


def test_good_spaces_are_taken(client: Make, spec: StudyCreate) -> None:
    space = {
        "max_num_seqs": KnobRange(minimum=1, maximum=64, log=True),
        "num_speculative_tokens": KnobRange(choices=[0, 4, [[4, 6], [16, 2]]]),
        "quantization": KnobRange(choices=["none", "int8"]),
    }
    wanted = spec.model_copy(update={"space": space, "rollout": {"tolerance": 0.1}})
    assert client(Scope.OPERATE).create_study(wanted).spec == wanted


def test_pages_go_through_all_studies(client: Make, spec: StudyCreate) -> None:
    person = client(Scope.OPERATE)
    for _ in range(5):
        person.create_study(spec)
    assert [study.id for study in person.every(type(person.study(1)), "/api/v1/studies", limit=2)] == [5, 4, 3, 2, 1]


def test_numbers_too_large_for_the_database_are_refused(client: Make, spec: StudyCreate) -> None:
    person = client(Scope.OPERATE)
    created = person.create_study(spec)
    person.claim_study("w")
    token = person.take_trial_node(created.id, NodeWanted(worker="w", node="t")).token
    with pytest.raises(BadRequest):
        person.take_trial(created.id, token, TrialWanted(number=0, knobs={}).model_copy(update={"number": 2**40}))
    with pytest.raises(BadRequest):
        person.finish_study(created.id, StudyFinish(worker="w", error="x", rollout_id=2**70))
    with pytest.raises(BadRequest):
        person.study(2**70)


def test_infinite_numbers_are_refused(client: Make, spec: StudyCreate) -> None:
    person = client(Scope.OPERATE)
    person.create_study(spec)
    person.claim_study("w")
    for path, body, field in (
        ("", '{"pool": "chat", "max_duration_s": Infinity}', "body.max_duration_s"),
        (
            "/1/trials?token=1",
            '{"number": 0, "knobs": {}, "state": "failed", "violations": {"a": NaN}}',
            "violations.a",
        ),
        ("/1/heartbeat", '{"worker": "w", "workload_summary": {"x": [1, -Infinity]}}', "workload_summary.x[1]"),
    ):
        answer = person._http.post(f"/api/v1/studies{path}", content=body, headers={"Content-Type": "application/json"})
        assert answer.status_code == 400, answer.text
        assert answer.json()["error"]["detail"]["field"] == field
