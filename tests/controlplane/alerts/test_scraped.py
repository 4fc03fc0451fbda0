"""A pool whose latencies come from vLLM's /metrics: buckets, no prompt lengths, no cache classes, few parts."""

from datetime import timedelta
from typing import Any

import numpy as np
import pytest

from controlplane.alerts import store
from controlplane.alerts.channels import payload
from controlplane.alerts.evaluator import AlertEvaluator
from controlplane.contract.bodies.alerts import AbsoluteCondition, Alert, AlertRuleCreate, RegressionCondition
from controlplane.contract.bodies.slo import Limit
from controlplane.contract.metrics import WINDOW_S
from controlplane.db import Database
from controlplane.evidence.sketch import Sketch
from controlplane.telemetry.otlp.buckets import from_spans

pytestmark = pytest.mark.slow

BOUNDS = [0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0]
"""vLLM's bounds of vllm:time_to_first_token_seconds (v1/metrics/loggers.py), without the highest ones."""


def scraped(values: Any) -> Sketch:
    edges = [1e-4, *BOUNDS]
    counts = np.histogram(np.clip(values, edges[0], edges[-1]), edges)[0].tolist()
    spans = [(low, high, count) for low, high, count in zip(edges, edges[1:], counts, strict=False) if count]
    axis = from_spans(spans, 0)
    made = Sketch(total=float(values.sum()), minimum=spans[0][0], maximum=spans[-1][1], relative_error=axis.error)
    made.counts[axis.low : axis.low + len(axis.counts)] = axis.counts
    return made


class ScrapedPlant:
    """A pool of one vLLM without the plugin: ttft, queue and prefill only, labelled by node and revision alone."""

    def __init__(self, telemetry: Any, plant: Any) -> None:
        self.telemetry, self.now, self.random = telemetry, plant.now, np.random.default_rng(5)

    def serve(self, seconds: float, *, prefill: float = 1.0) -> None:
        for _ in range(round(seconds / WINDOW_S)):
            n = int(self.random.poisson(40))
            queue = 0.01 * self.random.lognormal(0.0, 0.4, n)
            work = 0.05 * prefill * self.random.lognormal(0.0, 0.4, n)
            labels = {"pool": "main", "node": "a", "model": "m", "revision": "1"}
            for metric, values in {"queue": queue, "prefill": work, "ttft": queue + work}.items():
                self.telemetry.add(metric, self.now, scraped(values), **labels)
            self.now += timedelta(seconds=WINDOW_S)


@pytest.fixture
def pool(telemetry: Any, plant: Any) -> ScrapedPlant:
    return ScrapedPlant(telemetry, plant)


def run(evaluator: AlertEvaluator, pool: ScrapedPlant, seconds: float, **how: Any) -> None:
    for _ in range(round(seconds / 5)):
        pool.serve(5, **how)
        evaluator.tick(pool.now)


def firing(database: Database) -> list[Alert]:
    with database.read_session() as session:
        return [alert for alert in store.alerts(session, before_id=None, limit=100) if alert.state == "firing"]


def test_a_regression_is_found_and_says_how_well_it_is_known(
    database: Database, telemetry: Any, pool: ScrapedPlant
) -> None:
    with database.session() as session:
        store.create_rule(session, AlertRuleCreate(name="rule", condition=RegressionCondition()), pool.now)
    evaluator = AlertEvaluator(database, telemetry)
    run(evaluator, pool, 900)
    assert firing(database) == []
    run(evaluator, pool, 120, prefill=6.0)
    (alert,) = firing(database)
    assert alert.labels == {"kind": "regression", "pool": "main", "metric": "ttft"}
    assert alert.evidence["judged_by"].startswith("ttft, itl, e2e in place of stages: 0 % of requests tell theirs")
    assert alert.evidence["prompt_bucket"] is None
    assert alert.evidence["accuracy"]["relative_error"] >= 0.5
    assert "from /metrics buckets" in alert.summary and "for prompts of" not in alert.summary
    assert alert.diagnosis is not None and alert.diagnosis.stage == "prefill"
    assert [stage.stage for stage in alert.diagnosis.stages] == ["queue", "prefill"]
    assert "from /metrics buckets" in payload.annotations_of(alert)["accuracy"]


def test_an_absolute_limit_works_too(database: Database, telemetry: Any, pool: ScrapedPlant) -> None:
    condition = AbsoluteCondition(limits=[Limit(metric="ttft", q=0.9, limit_s=0.3)])
    with database.session() as session:
        store.create_rule(session, AlertRuleCreate(name="rule", condition=condition), pool.now)
    evaluator = AlertEvaluator(database, telemetry)
    run(evaluator, pool, 60)
    assert firing(database) == []
    run(evaluator, pool, 120, prefill=12.0)
    (alert,) = firing(database)
    assert alert.evidence["accuracy"]["relative_error"] >= 0.5


def test_exact_timings_say_nothing_of_buckets(database: Database, telemetry: Any, plant: Any) -> None:
    with database.session() as session:
        store.create_rule(session, AlertRuleCreate(name="rule", condition=RegressionCondition()), plant.now)
    evaluator = AlertEvaluator(database, telemetry)
    for _ in range(180):
        plant.serve(5)
        evaluator.tick(plant.now)
    for _ in range(36):
        plant.serve(5, prefill=4.0)
        evaluator.tick(plant.now)
    (alert,) = firing(database)
    assert "accuracy" not in alert.evidence and "/metrics" not in alert.summary
