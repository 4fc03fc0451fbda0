"""A box over nothing names nothing; a planted cause is named first, with what merely goes along beside it."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controlplane.contract.bodies.explanation import Against, ExplainAnswer
from controlplane.telemetry.request_log.contrast import ALPHA, contrasts
from controlplane.telemetry.request_log.explain import Side, explain
from controlplane.telemetry.request_log.factors import CUTS, factors, in_bins, phrase
from controlplane.telemetry.request_log.request_columns import Mask
from controlplane.telemetry.request_log.request_filter import RequestFilter
from controlplane.telemetry.values.timespan import Span
from tests.controlplane.telemetry.request_log.traffic import Traffic, relabelled, traffic
from tests.soak import soak

START = datetime(2026, 3, 1, 12, tzinfo=UTC)
SPAN = Span(START, START + timedelta(minutes=5))
SEEDS = soak(100, 400)


def answered(found: Traffic, inside: Mask, low: float = 0.5) -> ExplainAnswer:
    here, there = found.split(inside)
    box = RequestFilter({}, "ttft", low, None)
    return explain(Side(here, SPAN), Side(there, SPAN), box, Against.SPAN, START - timedelta(days=2))


def in_a_random_box(found: Traffic, rng: np.random.Generator) -> Mask:
    low, high = np.sort(np.quantile(found.ttft, rng.random(2)))
    inside: Mask = (found.ttft >= low) & (found.ttft <= high)
    return inside


@pytest.mark.slow
@pytest.mark.soak
def test_over_homogeneous_traffic_a_box_names_nothing_but_for_alpha() -> None:
    named = 0
    for seed in range(SEEDS):
        rng = np.random.default_rng(seed)
        found = traffic(rng, int(rng.integers(30, 3000)), nodes=int(rng.integers(2, 40)), tenants=20)
        named += contrasts(factors(found.columns), in_a_random_box(found, rng))[0].is_named
    assert named <= ALPHA * SEEDS, f"{named} of {SEEDS} boxes over nothing named something"


@pytest.mark.parametrize(
    ("factor", "value", "size"),
    [
        ("node", "gpu-3", 400),
        ("revision", "4", 400),
        ("prompt_bucket", "<=32k", 3000),
        ("tenant", "t4", 2000),
        ("cache_class", "miss", 800),
    ],
)
def test_a_planted_cause_is_named_first(factor: str, value: str, size: int) -> None:
    for seed in range(20):
        rng = np.random.default_rng(seed)
        base = traffic(rng, size)
        found = base.slowed(base.columns.labels[factor].among([value]), rng)
        # As one draws it: above what is usual.
        low = float(np.quantile(base.ttft, 0.9))
        answer = answered(found, found.ttft >= low, low)
        first = answer.factors[0]
        assert (first.factor, first.named) == (factor, True), (seed, [one.sentence for one in answer.factors[:3]])
        best = max(first.values, key=lambda one: one.difference)
        assert best.value == value and best.named and 0.0 < best.low <= best.difference <= best.high
        assert phrase(factor, value) in first.sentence and first.sentence in answer.sentence
        assert answer.parts[0].part in ("ttft", "prefill", "e2e") and answer.parts[0].low_s > 0.0


@pytest.mark.parametrize("seed", range(8))
def test_of_two_that_go_together_the_cause_comes_first_and_both_are_said(seed: int) -> None:
    """gpu-3 has most of the long prompts: once it is slow itself, once only they are."""
    rng = np.random.default_rng(seed)
    base = traffic(rng, 4000)
    on_it = base.columns.labels["node"].among(["gpu-3"])
    bucket = base.columns.labels["prompt_bucket"].names.index("<=8k")
    chance = np.where(on_it, 0.6, 0.04)
    base = relabelled(base, "prompt_bucket", lambda coded: np.where(rng.random(4000) < chance, bucket, 0))
    is_long = base.columns.labels["prompt_bucket"].among(["<=8k"])
    for slow, cause, companion in ((on_it, "node", "prompt_bucket"), (is_long, "prompt_bucket", "node")):
        found = base.slowed(slow, rng)
        low = float(np.quantile(base.ttft, 0.95))
        first, second = answered(found, found.ttft >= low, low).factors[:2]
        assert [first.factor, second.factor] == [cause, companion] and second.named
        assert first.score > second.score and first.among_alike is None
        difference = max(one.difference for one in second.values)
        assert second.among_alike is not None and abs(second.among_alike) < difference / 3.0
        assert "Among requests alike in" in second.sentence


def test_empty_boxes_are_answered_in_words() -> None:
    found = traffic(np.random.default_rng(0), 50)
    nobody, everybody = np.zeros(50, dtype=np.bool_), np.ones(50, dtype=np.bool_)
    empty = answered(found, nobody)
    assert (empty.sentence, empty.factors, empty.parts) == ("No request of the log lies in this box.", [], [])
    assert answered(found, everybody).sentence == "50 requests inside, and none outside to compare with."
    one = nobody.copy()
    one[3] = True
    few = answered(found, one)
    assert few.sentence == "1 request inside, 49 outside: nothing tells them apart beyond chance."
    assert few.factors and not any(factor.named for factor in few.factors)
    late = explain(
        Side(found.split(nobody)[0], SPAN),
        Side(found.columns, SPAN),
        RequestFilter({}, "ttft", 1.0, None),
        Against.SPAN,
        SPAN.end,
    )
    assert late.sentence == "No request of the log lies in this box; it reaches less far back."


@settings(deadline=None)
@given(st.lists(st.one_of(st.floats(0.0, 1e6), st.just(float("nan"))), max_size=60), st.booleans())
def test_bins_hold_everything_that_was_told_once(values: list[float], as_share: bool) -> None:
    array = np.array(values, dtype=np.float64)
    coded = in_bins(array, as_share=as_share)
    assert ((coded.codes >= 0) == np.isfinite(array)).all() and len(coded.names) <= len(CUTS) + 1
    assert set(coded.codes.tolist()) - {-1} == set(range(len(coded.names)))
    told = [array[coded.codes == place] for place in range(len(coded.names))]
    assert all(before.max() < after.min() for before, after in pairwise(told))
