"""The checklist: bounds are the formulas of docs/advice.md, in their order, and what proves each can be asked for."""

from dataclasses import replace
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.advice.compute_techniques import LONGEST_DRAFT, acceptance_of
from controlplane.advice.pool_figures import PoolFigures, Readings
from controlplane.advice.techniques import LEAST, techniques
from controlplane.contract.knobs import ChangeClass, EngineConfig, parse_config
from controlplane.contract.planning.advice import Fits, Technique, TechniqueAdvice
from controlplane.contract.step_limits import StepLimit
from tests.controlplane.advice.advised_pool import BUSY, figures, node
from web.studies.wanted_study import wanted_study
from web.whatif.whatif_page import USUAL, asked_of

Q, P, D = 600 / 3000, 900 / 3000, 1400 / 3000
"""Of the pool in `advised_pool`."""
SHARES = st.floats(0.0, 1.0)
COUNTS = st.integers(0, 10_000).map(float)


def of(name: Technique, told: PoolFigures) -> TechniqueAdvice:
    return next(one for one in techniques(told) if one.technique is name)


@st.composite
def pools(draw: st.DrawFn) -> PoolFigures:
    """Any figures that a pool can have, each of which may be missing."""
    maybe = lambda strategy: draw(st.none() | strategy)  # noqa: E731
    stages = draw(st.fixed_dictionaries({name: COUNTS for name in ("queue", "prefill", "decode")}))
    told = {name: seconds for name, seconds in stages.items() if draw(st.booleans())}
    knobs = draw(
        st.fixed_dictionaries(
            {
                "max_num_batched_tokens": st.integers(1, 65536),
                "prefill_chunk_size": st.integers(0, 65536),
                "max_num_seqs": st.integers(1, 4096),
                "num_speculative_tokens": st.integers(0, 32),
                "quantization": st.sampled_from(["none", "int8"]),
            }
        )
    )
    limits = draw(st.dictionaries(st.sampled_from(list(StepLimit)), COUNTS))
    effective: dict[str, Any] = {
        "limits": draw(
            st.dictionaries(
                st.sampled_from(["max_num_seqs", "max_num_batched_tokens", "num_speculative_tokens"]),
                st.integers(0, 5000),
            )
        ),
        "formats": draw(st.sampled_from([[], ["none"], ["none", "int8", "fp8"]])),
    }
    return replace(
        BUSY,
        requests=draw(st.integers(1, 10_000)),
        seconds=told | {"e2e": sum(stages.values()) + 1.0},
        stalls=maybe(SHARES),
        queries=maybe(COUNTS),
        hits=maybe(COUNTS),
        findable=maybe(SHARES),
        drafted=maybe(COUNTS),
        accepted=maybe(COUNTS),
        preempted=maybe(COUNTS),
        limits=limits,
        step_parts=draw(st.sampled_from([{}, {"step_forward": 3.0, "step_sample": 1.0}])),
        running=maybe(st.integers(0, 100).map(lambda above: Readings(100, above, 9.0, 5.0))),
        config=maybe(st.just(parse_config(knobs))),
        serving=[node("gpu-1", draw(st.sampled_from(["embedded", "vllm"])), **effective)],
    )


@given(pools())
def test_each_is_told_once_in_order_and_a_bound_is_a_share(told: PoolFigures) -> None:
    found = techniques(told)
    assert {one.technique for one in found} == set(Technique) and len(found) == len(Technique)
    order = [Fits.APPLIES, Fits.UNKNOWN, Fits.NOT_HERE, Fits.NOTHING]
    ranks = [(order.index(one.fits), -(one.touches or 0.0)) for one in found]
    assert ranks == sorted(ranks)
    for one in found:
        assert (one.touches is None) == (one.fits is Fits.UNKNOWN)
        assert one.touches is None or 0.0 <= one.touches <= 1.0
        assert one.touches is not None or one.missing, "what is not known says what would bring it"
        assert one.fits is not Fits.APPLIES or (one.touches or 0.0) >= LEAST
        assert one.fits in (Fits.APPLIES, Fits.UNKNOWN) or not (one.study or one.forecast)


@given(pools())
def test_every_address_is_a_form_that_can_be_sent(told: PoolFigures) -> None:
    for one in techniques(told):
        if one.study:
            read = wanted_study(dict(parse_qsl(urlsplit(one.study).query, strict_parsing=True)))
            assert read.problems == {} and read.study is not None
            assert set(read.study.space) == {one.knob}
            wanted = read.study.space[str(one.knob)]
            assert one.most is None or wanted.maximum is None or wanted.maximum <= one.most
        if one.forecast:
            asked = dict(parse_qsl(urlsplit(one.forecast).query, strict_parsing=True))
            assert asked_of({name: asked.get(name, USUAL.get(name, "")) for name in SAID}).pool == "chat"
            assert told.config is not None and told.serving[0].backend == "embedded"


SAID = ("pool", *USUAL, *EngineConfig().knobs())


def test_the_formulas() -> None:
    assert of(Technique.REPLICA, BUSY).touches == pytest.approx(Q + (P + D) * 0.75)
    assert of(Technique.MAX_NUM_SEQS, BUSY).touches == pytest.approx(Q * 0.75), "three of four that left some waiting"
    assert of(Technique.KV_MEMORY, BUSY).touches == pytest.approx(P * 0.01), "no step wanted blocks; 60 preempted"
    assert of(Technique.STEP_BUDGET, BUSY).touches == pytest.approx(max((Q + P) * 0.1, D * 0.25))
    assert of(Technique.PREFIX_CACHING, BUSY).touches == pytest.approx(P * (0.5 - 0.25) / 0.75)
    assert of(Technique.SPECULATION, BUSY).touches == pytest.approx(D * LONGEST_DRAFT / (LONGEST_DRAFT + 1))
    assert of(Technique.QUANTIZATION, BUSY).touches == pytest.approx((P + D) * 700 / 840)


def test_a_step_budget_goes_the_way_that_touches_more() -> None:
    smaller = of(Technique.STEP_BUDGET, BUSY).study
    assert "objective=itl" in smaller and "max_num_batched_tokens=128+to+512+log" in smaller
    larger = of(Technique.STEP_BUDGET, figures(stalls=0.01)).study
    assert "objective=ttft" in larger and "max_num_batched_tokens=512+to+2048+log" in larger
    cut = figures(
        limits={StepLimit.CHUNK: 9.0, StepLimit.NO_WORK: 1.0}, config=parse_config({"prefill_chunk_size": 64})
    )
    assert of(Technique.STEP_BUDGET, cut).knob == "prefill_chunk_size"


def test_who_decodes_alone_is_held_up_by_no_prompt() -> None:
    alone = figures(running=Readings(240, 12, 2.0, 5.0), limits={StepLimit.NO_WORK: 9.0})
    assert of(Technique.STEP_BUDGET, alone).touches == pytest.approx(D * 0.05)


def test_a_prompt_is_longer_than_the_budget_where_its_whole_bucket_is() -> None:
    said = {one.name: one.value for one in of(Technique.STEP_BUDGET, BUSY).figures}
    assert said["prompts longer than the budget, at least"] == pytest.approx(1 / 6), "those of 513 to 2,048 tokens"


@given(st.integers(1, 32), st.floats(0.02, 0.98))
def test_acceptance_is_found_again_from_the_share_that_is_kept(length: int, chance: float) -> None:
    kept = sum(chance**place for place in range(1, length + 1)) / length
    assert acceptance_of(kept, length) == pytest.approx(chance, abs=1e-6)


def test_drafts_that_are_mostly_rejected_are_bounded_by_what_they_cost() -> None:
    told = figures(drafted=4000.0, accepted=400.0, config=parse_config({"num_speculative_tokens": 4}))
    found = of(Technique.SPECULATION, told)
    assert found.touches == pytest.approx(D * 0.9 * 4 / 5) and "10.0 % of the draft tokens" in found.says


def test_what_the_nodes_cannot_take_is_not_offered() -> None:
    at_the_limit = [node(limits={"max_num_seqs": 32, "num_speculative_tokens": 0}, formats=["none"])]
    told = figures(serving=at_the_limit)
    for name in (Technique.MAX_NUM_SEQS, Technique.SPECULATION, Technique.QUANTIZATION):
        found = of(name, told)
        assert found.fits is Fits.NOT_HERE and not found.study, name
    assert "take no more" in of(Technique.MAX_NUM_SEQS, told).says


def test_the_hardest_node_says_what_a_change_takes() -> None:
    live, hard = node("gpu-1"), node("gpu-2", change_classes={"max_num_seqs": "restart"}, limits={"max_num_seqs": 48})
    found = of(Technique.MAX_NUM_SEQS, figures(serving=[live, hard]))
    assert (found.change_class, found.most) == (ChangeClass.RESTART, 48) and "max_num_seqs=32+to+48+log" in found.study
    assert of(Technique.KV_MEMORY, BUSY).change_class is ChangeClass.RESTART
    assert of(Technique.REPLICA, BUSY).change_class is None


def test_a_forecast_of_vllm_is_not_offered() -> None:
    served = [node("gpu-1", "vllm")]
    assert not any(one.forecast for one in techniques(figures(serving=served)))
    assert "vllm_python" in of(Technique.REPLICA, figures(serving=served)).proof


@pytest.mark.parametrize(
    ("missing", "technique", "said"),
    [
        ({"limits": {}}, Technique.MAX_NUM_SEQS, "plugin 0.2.0"),
        ({"limits": {}}, Technique.STEP_BUDGET, "--scheduler-cls"),
        ({"running": None}, Technique.REPLICA, "requests.running"),
        ({"queries": None}, Technique.PREFIX_CACHING, "--enable-prefix-caching"),
        ({"seconds": {"e2e": 1.0}}, Technique.QUANTIZATION, "end to end divides"),
        ({"preempted": None}, Technique.KV_MEMORY, "preemptions"),
        ({"config": None}, Technique.SPECULATION, "no revision in production"),
    ],
)
def test_what_is_missing_says_what_would_bring_it(missing: dict[str, Any], technique: Technique, said: str) -> None:
    found = of(technique, figures(**missing))
    assert found.touches is None and said in " ".join(found.missing)


def test_prompts_that_nobody_compares_may_all_be_alike() -> None:
    found = of(Technique.PREFIX_CACHING, figures(findable=None))
    assert found.touches == pytest.approx(P) and "block hashes" in found.missing[0]
