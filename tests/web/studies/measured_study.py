"""A study as its worker tells it, with a search, pairs on fresh traffic, limits and what was left out."""

from datetime import UTC, datetime, timedelta
from typing import Any

from controlplane.client import Client
from controlplane.contract.bodies.access import EnrolmentRequest
from controlplane.contract.bodies.health import ServiceView
from controlplane.contract.bodies.nodes import FleetColumns, NodeView
from controlplane.contract.bodies.slo import Limit
from controlplane.contract.bodies.studies import (
    Evaluation,
    EvaluationScore,
    RandomSearch,
    RunOrder,
    Study,
    StudyCreate,
    StudyFinish,
    StudyHeartbeat,
    StudyResult,
    StudyState,
    StudyVerdict,
    Trial,
    TrialReport,
    TrialState,
)
from controlplane.contract.knobs import EngineConfig
from controlplane.contract.planning.measurement import Measurement
from controlplane.contract.planning.trial_leases import NodeWanted, TrialWanted

BEGAN = datetime(2030, 1, 1, 9, tzinfo=UTC)
DEFAULT = EngineConfig().knobs()
WINNER = {**DEFAULT, "max_num_batched_tokens": 1024, "quantization": "int8"}
TRIED: list[tuple[dict[str, Any], float | None, bool]] = [
    ({}, 0.70, True),
    ({"max_num_batched_tokens": 2048, "num_speculative_tokens": 4}, 0.92, False),
    ({"max_num_batched_tokens": 1024, "quantization": "int8"}, 0.44, True),
    ({"max_num_batched_tokens": 256, "prefill_chunk_size": 128}, 0.63, True),
    ({"max_num_batched_tokens": 1024, "quantization": "int8", "num_speculative_tokens": 2}, 0.41, False),
    ({"max_num_batched_tokens": 768, "num_speculative_tokens": 8}, None, False),
]
PAIRS = [(0.71, 0.45), (0.69, 0.46), (0.74, 0.44), (0.70, 0.48)]
SPEC = StudyCreate(
    pool="chat",
    constraints=[Limit(metric="itl", q=0.99, limit_s=0.2), Limit(metric="ttft", q=0.95, limit_s=1.0)],
    max_trials=8,
    seed=7,
    reason='the tail\'s <evening> "peak" & more',
)
QUALITY = {"top1_agreement": 0.957, "logprob_drop": 0.0104, "logprob_drop_high": 0.015}
RESULT = StudyResult(
    verdict=StudyVerdict.BETTER,
    winner=WINNER,
    default=DEFAULT,
    winner_objective_s=0.457,
    default_objective_s=0.71,
    improvement=0.356,
    interval=(0.31, 0.4),
    repeats=4,
    change_s=21.0,
    payback_s=1520.0,
    default_revision=3,
    summary="e2e p95 falls by 35.6 % (31.0 % to 40.0 %, 95 %, 4 interleaved pairs); every limit held.",
    quality=QUALITY,
    evaluation=Evaluation(
        name="mmlu",
        margin=0.01,
        default=EvaluationScore(score=0.615, standard_error=0.002, took_s=61.0),
        winner=EvaluationScore(score=0.612, standard_error=0.002, took_s=60.0),
        drop=0.003,
        drop_high=0.0077,
        held=True,
    ),
    random_search=RandomSearch(trials=7, improvement=0.212, low=0.05, high=0.33),
    importances={"quantization": 0.7, "max_num_batched_tokens": 0.3},
)
_SLICE = {
    "requests": 40,
    "span_s": 18.2,
    "rate_per_s": 2.14,
    "arrival_cv": 1.31,
    "input_tokens": {"p50": 310, "p95": 1200, "p99": 1800},
    "output_tokens": {"p50": 64, "p95": 210, "p99": 256},
    "prefix_share": 0.37,
}
SUMMARY: dict[str, Any] = {
    "captured": {**_SLICE, "requests": 1210, "span_s": 300.0},
    "nodes": 3,
    "share": {**_SLICE, "requests": 402, "span_s": 299.0},
    "slice": _SLICE,
    "compressed": 1.25,
    "shortened": 2,
    "fresh_slice": {"slice": {**_SLICE, "rate_per_s": 2.3}, "apart": True},
    "engine": {"backend": "embedded", "model": "tiny", "version": "1.4", "formats": ["none", "int8"]},
    "space": {
        "values": {
            "max_num_batched_tokens": [32, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048],
            "prefill_chunk_size": [32, 64, 128, 256, 512, 0],
            "num_speculative_tokens": [0, 1, 2, 3, 4, 6, 8],
            "quantization": ["none", "int8"],
        },
        "left_out": [
            {"knob": "quantization", "values": ["int4", "fp8"], "why": "the trial node's engine does not run it"},
            {"knob": "max_num_seqs", "values": [], "why": "a study searches it only where it is asked to"},
        ],
    },
}


def _trial(number: int, kind: str, knobs: dict[str, Any], objective_s: float | None, **more: Any) -> Trial:
    quantiles = {} if objective_s is None else {"e2e:0.95": objective_s, "itl:0.99": 0.15, "ttft:0.95": 0.31}
    measured = Measurement(
        requests=40, errors=0, duration_s=18.0, quantiles=quantiles, output_tokens_per_s=120.0 / (objective_s or 1)
    )
    told: dict[str, Any] = {
        "feasible": objective_s is not None,
        "measurement": None if objective_s is None else measured,
        "violations": {} if objective_s is None else {"errors": -1.0, "itl:0.99": -0.25, "ttft:0.95": -0.69},
        "state": TrialState.FAILED if objective_s is None else TrialState.COMPLETE,
        "error": "the engine ran out of memory" if objective_s is None else "",
        "quality": dict(QUALITY) if knobs.get("quantization") == "int8" else {},
    }
    told["violations"] |= {"top1_agreement": -0.06, "logprob_drop": -0.7} if told["quality"] else {}
    about: dict[str, Any] = {"id": 100 + number, "study_id": 12, "number": number, "kind": kind, "knobs": knobs}
    run: dict[str, Any] = {
        "node": "trial-1",
        "worker": "tuner-a",
        "took_s": 20.5,
        "change_s": 0.4,
        "reported_at": BEGAN,
    }
    return Trial.model_validate({**about, **run, "objective_s": objective_s, **told, **more})


def trials() -> list[Trial]:
    """The search, then the pairs, as the worker has measured them."""
    found = [
        _trial(at, "search" if at else "default", {**DEFAULT, **knobs}, objective_s, feasible=feasible)
        for at, (knobs, objective_s, feasible) in enumerate(TRIED)
    ]
    for pair, both in enumerate(PAIRS):
        for arm, knobs, objective_s in zip(("default", "winner"), (DEFAULT, WINNER), both, strict=True):
            order = RunOrder(heat=2 + pair, pair=pair, pairs=4, design="interleaved", arm=arm)
            found.append(_trial(len(found), "finalist", knobs, objective_s, order=order))
    return found


def study(**more: Any) -> Study:
    about: dict[str, Any] = {
        "id": 12,
        "state": StudyState.FINISHED,
        "spec": SPEC,
        "created_by": "ann",
        "created_at": BEGAN,
        "started_at": BEGAN,
        "finished_at": BEGAN + timedelta(minutes=9),
        "active_s": 540.0,
        "trial_node": "trial-1",
        "trials_done": len(TRIED),
        "finalist_runs": 2 * len(PAIRS),
        "workload_summary": SUMMARY,
        "result": RESULT,
        "default_revision": 3,
        "rollout_id": 4,
    }
    return Study.model_validate(about | more)


def carried_out(client: Client) -> int:
    """The same study, told to a real service as its worker does. Its number."""
    client.enrol(EnrolmentRequest(node="gpu-1", pool="chat", backend="embedded"))
    number = client.create_study(SPEC).id
    claimed = client.claim_study("tuner-a")
    assert claimed is not None and claimed.id == number
    beat = StudyHeartbeat(worker="tuner-a", trial_node="trial-1", workload_summary=SUMMARY)
    client.heartbeat_study(number, beat)
    token = client.take_trial_node(number, NodeWanted(worker="tuner-a", node="trial-1")).token
    for trial in trials():
        wanted = TrialWanted(number=trial.number, kind=trial.kind, knobs=trial.knobs, order=trial.order)
        client.take_trial(number, token, wanted)
        told = trial.model_dump(include=set(TrialReport.model_fields))
        client.report_trial(number, token, TrialReport.model_validate(told))
    client.release_trial_node(number, token)
    client.finish_study(number, StudyFinish(worker="tuner-a", result=RESULT))
    return number


class MeasuredStudy:
    """The calls that a report makes; its pool has no node that is heard from."""

    def __init__(self, found: Study, measured: list[Trial]) -> None:
        self._study, self._trials = found, measured

    def study(self, number: int) -> Study:
        return self._study

    def trials(self, number: int) -> list[Trial]:
        return list(reversed(self._trials))

    def fleet(self, pool: str) -> FleetColumns:
        return FleetColumns.model_construct(node=[], role=[], state=[], config_hash=[], desired_revision=[])

    def node(self, name: str) -> NodeView:
        raise AssertionError(name)

    def service(self) -> ServiceView:
        return ServiceView(version="9.8.7", database="sqlite", database_bytes=1, disk_free_bytes=None, settings=[])
