"""A study's text: what the winner changes, told by values and not by how they are written."""

from typing import Any

import pytest

from controlplane.contract.bodies.slo import Limit
from controlplane.contract.bodies.studies import (
    AlsoFound,
    Costs,
    Evaluation,
    EvaluationScore,
    Objective,
    StudyCreate,
    StudyVerdict,
    TokenCost,
    Trial,
    TrialState,
)
from controlplane.contract.knobs import EngineConfig
from controlplane.contract.planning.measurement import CarriedLoad, Carries, Measurement
from tuner.study.paired_test import Improvement
from tuner.study.remeasure import verdict
from tuner.study.study_text import carries_text, changes, nothing_kept, summary_of

SCHEDULE = ((1, 4), (8, 0))


def test_only_what_differs_is_told_in_the_order_of_the_knobs() -> None:
    default = EngineConfig(max_num_batched_tokens=24).knobs()
    winner = EngineConfig(max_num_batched_tokens=512, max_num_seqs=8).knobs()
    seqs = default["max_num_seqs"]
    assert changes(winner, default) == f"max_num_batched_tokens 24 -> 512, max_num_seqs {seqs} -> 8"
    assert changes(default, default) == "nothing"


def test_a_schedule_as_it_came_over_the_wire_is_the_same_schedule() -> None:
    ours: dict[str, Any] = {"num_speculative_tokens": SCHEDULE, "quantization": "none"}
    assert changes(ours | {"num_speculative_tokens": [list(pair) for pair in SCHEDULE]}, ours) == "nothing"


def test_a_quantized_winner_is_told_with_its_quality_and_the_evaluation() -> None:
    ours, winner = EngineConfig().knobs(), EngineConfig().knobs() | {"quantization": "int8"}
    quality = {"top1_agreement": 0.962, "top1_agreement_low": 0.941, "logprob_drop": 0.01, "logprob_drop_high": 0.017}
    own = Evaluation(name="mmlu", margin=0.01, default=_scored(0.6), winner=_scored(0.612), drop_high=-0.012, held=True)
    found, spec = Improvement(0.2, 0.1, 0.3, 5), StudyCreate(pool="p")
    told = summary_of(spec, StudyVerdict.BETTER, winner, ours, found, {}, quality=quality, evaluation=own)
    assert told.endswith(
        "every limit held. 96.2 % of next tokens are those of the unquantized model (94.1 % at least), and held-out "
        "text is 0.010 nats a token less likely (0.017 at most). Evaluation mmlu scores 0.612, the default 0.6."
    )
    own = own.model_copy(update={"winner": _scored(0.55), "drop_high": 0.05, "held": False})
    kept = summary_of(spec, StudyVerdict.NOT_BETTER, winner, ours, found, {}, evaluation=own)
    assert "and its evaluation does not hold. Evaluation mmlu scores 0.55, the default 0.6: 0.05 less, of 0.01" in kept
    assert verdict(found, {}) is StudyVerdict.BETTER and verdict(found, {}, (), own) is StudyVerdict.NOT_BETTER
    assert verdict(found, {}, (), own.model_copy(update={"held": True})) is StudyVerdict.BETTER


def test_an_interval_of_too_few_pairs_is_no_figure() -> None:
    spec, ours = StudyCreate(pool="p"), EngineConfig().knobs()
    for low in (-1886969.9, float("-inf")):
        told = summary_of(spec, StudyVerdict.NOT_BETTER, ours, ours, Improvement(0.84, low, 1.0, 2), {})
        assert "(2 interleaved pairs on traffic that the search did not see" in told and "to 100" not in told
    assert "see, too few to bound it)" in summary_of(
        spec, StudyVerdict.NOT_BETTER, ours, ours, Improvement(0.84, -1886969.9, 1.0, 2), {}
    )


def _scored(score: float) -> EvaluationScore:
    return EvaluationScore(score=score, took_s=1.0)


def test_what_was_not_captured_is_told_beside_the_pairs() -> None:
    spec, ours = StudyCreate(pool="p", workload="profile:chat@4"), EngineConfig().knobs()
    told = summary_of(spec, StudyVerdict.BETTER, ours, ours, Improvement(0.2, 0.1, 0.3, 5), {})
    assert "on traffic of profile chat at 4 requests a second that the search did not see" in told


def test_the_largest_load_is_told_with_its_interval_within_its_limits() -> None:
    limits = [Limit(metric="ttft", q=0.95, limit_s=0.5)]
    spec = StudyCreate(pool="p", objective="max_load", constraints=limits)
    ours, winner = EngineConfig().knobs(), EngineConfig(max_num_seqs=8).knobs()
    loads = Carries(load=2.4, low=2.1, high=2.7), Carries(load=1.9, low=1.8, high=2.0)
    told = summary_of(spec, StudyVerdict.BETTER, winner, ours, Improvement(0.2, 0.1, 0.5, 5), {}, carries=loads)
    assert told.startswith("the largest load rises by 25.0 % (11.1 % to 100.0 %, 95 %, 5 interleaved pairs")
    assert told.endswith(
        "it carries 2.4 times the captured load (2.1 to 2.7), within ttft p95 <= 500 ms, the default 1.9 times the "
        "captured load (1.8 to 2)."
    )
    kept = summary_of(spec, StudyVerdict.NOT_BETTER, winner, ours, Improvement(-0.25, -1, 0.5, 5), {}, carries=loads)
    assert (
        "the largest load falls by 20.0 % (-100.0 % to 50.0 %, 95 %, 5" in kept and "zero. It carries 2.4 times" in kept
    )
    assert carries_text(spec, None, loads[1]) == (
        "the default carries 1.9 times the captured load (1.8 to 2), within ttft p95 <= 500 ms"
    )


def test_where_neither_carries_the_least_load_that_is_said_and_no_share_of_nothing() -> None:
    limits = [Limit(metric="ttft", q=0.95, limit_s=0.5)]
    spec = StudyCreate(pool="p", objective="max_load", constraints=limits)
    ours, winner = EngineConfig().knobs(), EngineConfig(max_num_seqs=8).knobs()
    nothing = Carries(load=0, low=0, high=0)
    found = Improvement(0, 0, 0, 3)
    told = summary_of(spec, StudyVerdict.NOT_BETTER, winner, ours, found, {}, carries=(nothing, nothing))
    assert "kept ttft p95 <= 500 ms at the least load that was tried, in 3 interleaved pairs" in told
    assert "Looser limits, or lighter traffic" in told and "0.0 %" not in told
    some = Carries(load=0.5, low=0.4, high=0.6)
    assert "exclude zero" in summary_of(spec, StudyVerdict.NOT_BETTER, winner, ours, found, {}, carries=(some, nothing))


def test_further_objectives_and_costs_are_told_beside_the_verdict() -> None:
    also = [Objective(objective="tpot", objective_q=0.5)]
    spec = StudyCreate(pool="p", objective="cost", also=also, constraints=[Limit(metric="ttft", q=0.95, limit_s=1)])
    default, winner = EngineConfig().knobs(), EngineConfig(max_num_seqs=8).knobs()
    figures = {"default_s": 0.1, "winner_s": 0.105, "improvement": -0.05, "interval": (-0.09, -0.01)}
    beside = AlsoFound(objective="tpot", objective_q=0.5, **figures, worse_at_most=0.08, held=True)
    costs = Costs(default=_cost(6.2), winner=_cost(5.0))
    loads = Carries(load=2.4, low=2.1, high=2.7), Carries(load=1.9, low=1.8, high=2.0)
    more: dict[str, Any] = {"carries": loads, "costs": costs}
    found = Improvement(0.2, 0.1, 0.3, 5)
    told = summary_of(spec, StudyVerdict.BETTER, winner, default, found, {}, also=[beside], **more)
    assert told.startswith("cost falls by 20.0 % (10.0 % to 30.0 %, 95 %, 5 interleaved pairs")
    assert "; it carries 2.4 times the captured load" in told and ". Tpot p50 rises by 5.0 %. It costs 5.00 s" in told
    lost = beside.model_copy(update={"held": False, "worse_at_most": 0.14})
    kept = summary_of(spec, StudyVerdict.NOT_BETTER, winner, default, found, {}, also=[lost], **more)
    assert ") cost falls by 20.0 % (10.0 % to 30.0 %" in kept
    assert "and it may be worse than the default in a further objective. It carries 2.4 times" in kept
    assert "Tpot p50 rises by 5.0 % (it may be worse by 14.0 %)." in kept


def _cost(node_s: float) -> TokenCost:
    return TokenCost(node_s=node_s, low_s=0.9 * node_s, high_s=1.1 * node_s)


def test_goodput_is_told_as_the_rate_that_it_is() -> None:
    spec = StudyCreate(pool="p", objective="goodput", constraints=[Limit(metric="ttft", q=0.95, limit_s=1)])
    default, winner = EngineConfig().knobs(), EngineConfig(max_num_seqs=8).knobs()
    found = Improvement(0.2, 0.1, 0.5, 5)
    told = summary_of(spec, StudyVerdict.BETTER, winner, default, found, {}, payback_s=60)
    assert told.startswith("goodput rises by 25.0 % (11.1 % to 100.0 %, 95 %, 5 interleaved pairs")
    kept = summary_of(spec, StudyVerdict.NOT_BETTER, winner, default, Improvement(-0.25, -1, 0.5, 5), {})
    assert ") goodput falls by 20.0 % (-100.0 % to 50.0 %" in kept and "does not exclude zero" in kept


@pytest.mark.parametrize(
    ("objective", "kept", "says"),
    [
        ("goodput", {"good": 0}, "no request of any trial kept ttft p95 <= 500 ms"),
        ("goodput_tokens", {"good": 1}, ""),
        ("max_load", {"load": 0.0}, "no configuration kept ttft p95 <= 500 ms at the least load that was tried"),
        ("cost", {"load": 0.3}, ""),
        ("ttft", {}, ""),
    ],
)
def test_that_nothing_kept_the_limits_is_said_where_nothing_else_tells_trials_apart(
    objective: str, kept: dict[str, Any], says: str
) -> None:
    limits = [Limit(metric="ttft", q=0.95, limit_s=0.5)]
    spec = StudyCreate(pool="p", objective=objective, constraints=limits)
    carried = None
    if "load" in kept:
        carried = CarriedLoad(load=kept["load"], low=0.0, high=1.0, request_s=1.0, replays=[])
    measurement = Measurement(
        requests=9, errors=0, duration_s=1, quantiles={}, output_tokens_per_s=1, good=kept.get("good"), carried=carried
    )
    trials = [
        Trial(number=number, knobs={}, state=TrialState.COMPLETE, id=number, study_id=1, measurement=one)
        for number, one in enumerate([None, measurement])
    ]
    assert nothing_kept(spec, trials) == says
