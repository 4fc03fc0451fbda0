"""A forecast against a pool whose truth is known: right where it was fitted, and told where it was not."""

from dataclasses import replace

import numpy as np
import pytest

from controlplane.contract.errors import BadRequest, NotFound
from controlplane.contract.knobs import EngineConfig, parse_config
from controlplane.contract.planning.whatif import ForecastClass, WhatIfCreate
from tests.tuner.served_pool import SHAPE, TRUTH, Served, traffic
from tuner.twin.assumed_drafts import Drafts
from tuner.twin.dealt_traffic import Scale, dealt
from tuner.twin.forecast import forecast
from tuner.twin.simulated_engine import SimulatedEngine
from tuner.workload.rescale import scale_rate

CONFIG = parse_config({"max_num_batched_tokens": 256, "max_num_seqs": 16})
FALLING = Drafts(0.8, (0.85, 0.6, 0.4, 0.25, 0.15, 0.1))


def drafts_of(length: int) -> EngineConfig:
    return CONFIG.model_copy(update={"num_speculative_tokens": length})


@pytest.fixture(scope="module")
def served() -> Served:
    return Served(traffic(seed=5, requests=330, per_s=3.0), CONFIG)


@pytest.mark.slow
def test_the_pool_as_it_is_is_told_right_on_what_it_was_not_fitted_to(served: Served) -> None:
    answer = forecast(served.task(WhatIfCreate(pool="chat")))
    assert answer.forecast_class is ForecastClass.CALIBRATED and not answer.because
    assert abs(answer.error["tpot:0.5"]) < 0.05
    assert abs(answer.error["ttft:0.95"]) < 0.10
    assert answer.changed == answer.as_is
    assert "no proof" in answer.summary
    for told in answer.as_is.quantiles.values():
        assert told.low_s <= told.value_s <= told.high_s


@pytest.mark.slow
def test_what_passes_between_steps_makes_no_prompt_dearer() -> None:
    """A quarter of the time is in no step's seconds; a factor on all costs would tell long prompts a quarter late."""
    slow = Served(traffic(seed=4, requests=330, per_s=3.0), CONFIG, between_s=0.002)
    answer = forecast(slow.task(WhatIfCreate(pool="chat")))
    assert answer.fit["pause"] == pytest.approx(0.002, rel=0.25)
    assert abs(answer.error["tpot:0.5"]) < 0.05
    assert abs(answer.error["ttft:0.95"]) < 0.1


@pytest.mark.slow
def test_more_load_is_forecast_within_its_interval_of_what_it_then_is(served: Served) -> None:
    answer = forecast(served.task(WhatIfCreate(pool="chat", load=1.6)))
    truth = Served(scale_rate(served.workload, 1.6), CONFIG, seed=2)
    told = answer.changed.quantiles["ttft:0.95"]
    late = truth.ttft()[len(truth.stories) // 5 :]
    assert told.low_s * 0.9 <= float(np.quantile(late, 0.95)) <= told.high_s * 1.1
    assert told.value_s > answer.as_is.quantiles["ttft:0.95"].value_s


@pytest.mark.slow
def test_a_knob_is_ranked_as_the_truth_ranks_it(served: Served) -> None:
    """Few seats make requests wait: the twin says so before anybody tries it."""
    answer = forecast(served.task(WhatIfCreate(pool="chat", knobs={"max_num_seqs": 2})))
    truth = Served(served.workload, CONFIG.model_copy(update={"max_num_seqs": 2}), seed=2)
    before, after = (float(np.quantile(one.ttft(), 0.95)) for one in (served, truth))
    assert after > 1.5 * before
    assert answer.changed.quantiles["ttft:0.95"].value_s > 1.5 * answer.as_is.quantiles["ttft:0.95"].value_s


@pytest.mark.slow
def test_another_replica_takes_its_share(served: Served) -> None:
    task = served.task(WhatIfCreate(pool="chat", replicas=2))
    answer = forecast(task)
    assert answer == forecast(task)
    assert answer.changed.replicas == 2
    assert answer.changed.busy < 0.75 * answer.as_is.busy
    assert answer.changed.quantiles["ttft:0.95"].value_s <= answer.as_is.quantiles["ttft:0.95"].value_s


@pytest.mark.slow
@pytest.mark.parametrize("split", [0.0, 0.4, 1.0])
def test_a_model_over_more_devices_is_within_its_interval_however_much_of_a_step_is_split(
    served: Served, split: float
) -> None:
    answer = forecast(served.task(WhatIfCreate(pool="chat", model_parallel=2)))
    ((_, arrivals),) = dealt(served.workload, 1, Scale(), 2)
    engine = SimulatedEngine(replace(SHAPE, num_blocks=2 * SHAPE.num_blocks), CONFIG, TRUTH.over(2, split))
    late = [one for one in engine.run(arrivals) if one.arrived_s > 20.0 and one.first_token_s and one.ended_s]
    tpot = [(one.ended_s - one.first_token_s) / (one.outputs - 1) for one in late if one.outputs > 1]  # type: ignore[operator]
    told = answer.changed.quantiles["tpot:0.5"]
    assert 0.98 * told.low_s <= float(np.median(tpot)) <= 1.02 * told.high_s, "what is split of a fit is a little off"
    assert told.value_s < answer.as_is.quantiles["tpot:0.5"].value_s and answer.changed.busy < answer.as_is.busy
    assert answer.forecast_class is ForecastClass.EXTRAPOLATED and "exchange is not counted" in answer.because[0]


@pytest.mark.slow
def test_what_lies_beyond_what_was_seen_is_said(served: Served) -> None:
    answer = forecast(served.task(WhatIfCreate(pool="chat", prompts=3.0, knobs={"num_speculative_tokens": 4})))
    assert answer.forecast_class is ForecastClass.EXTRAPOLATED
    assert any("contexts" in one for one in answer.because) and any("drafts" in one for one in answer.because)
    assert "extrapolates" in answer.summary


@pytest.mark.slow
def test_pieces_that_were_never_so_large_are_not_known_and_the_interval_says_so() -> None:
    """A piece and its 16 tokens always came together: of a piece of 256 the fit to them tells little."""
    pieces = CONFIG.model_copy(update={"prefill_chunk_size": 16})
    pool = Served(traffic(seed=5, requests=330, per_s=2.0), pieces)
    whole, half = {"prefill_chunk_size": 0}, {"prefill_chunk_size": 16, "max_num_seqs": 8}
    answer = forecast(pool.task(WhatIfCreate(pool="chat", others=[whole, half])))
    truth = Served(pool.workload, CONFIG, seed=2).figures(0.2 * 165)
    told, small = answer.others
    assert told.forecast_class is ForecastClass.EXTRAPOLATED and "256 tokens of a prompt" in told.because[0]
    assert all(told.quantiles[name].low_s < truth[name] < told.quantiles[name].high_s for name in told.quantiles)
    assert small.forecast_class is ForecastClass.CALIBRATED is answer.forecast_class
    wide, narrow = (one.quantiles["ttft:0.95"].high_s / one.quantiles["ttft:0.95"].low_s for one in (told, small))
    assert wide > 1.5 * narrow


@pytest.fixture(scope="module")
def drafting() -> Served:
    """Drafts of four tokens, of which the later ones are ever rarer kept."""
    return Served(traffic(seed=5, requests=330, per_s=3.0), drafts_of(4), drafts=FALLING)


@pytest.mark.slow
@pytest.mark.parametrize("length", [1, 2, 6])
def test_drafts_of_another_length_are_forecast_by_what_is_kept_at_each_place(drafting: Served, length: int) -> None:
    truth = Served(drafting.workload, drafts_of(length), seed=2, drafts=FALLING).figures(20.0)["tpot:0.5"]
    asked = WhatIfCreate(pool="chat", knobs={"num_speculative_tokens": length})
    even, found = (forecast(drafting.task(asked, by_place=by_place)) for by_place in (False, True))
    errors = [one.changed.quantiles["tpot:0.5"].value_s / truth - 1.0 for one in (even, found)]
    assert abs(errors[1]) < 0.05
    if length < 4:
        assert abs(errors[1]) < abs(errors[0]) / 1.5, "the same share at each place thinks too little of the first ones"
    assert ("up to token 4" in " ".join(found.because)) == (length > 4)


def test_several_configurations_are_forecast_at_once_as_each_alone(served: Served) -> None:
    few, many, int8 = {"max_num_seqs": 2}, {"max_num_batched_tokens": 1024}, {"quantization": "int8"}
    answer = forecast(served.task(WhatIfCreate(pool="chat", load=1.2, others=[few, many, int8])))
    alone = forecast(served.task(WhatIfCreate(pool="chat", load=1.2, knobs=few)))
    assert answer.others[0].quantiles == alone.changed.quantiles and answer.others[0].because == alone.because
    assert answer.others[1].forecast_class is ForecastClass.EXTRAPOLATED and "larger" in answer.others[1].because[0]
    assert "int8" in answer.others[2].refused and not answer.others[2].quantiles
    assert [one.knobs for one in answer.others] == [few, many, int8]


def test_another_weight_format_is_refused(served: Served) -> None:
    with pytest.raises(BadRequest, match="int8"):
        forecast(served.task(WhatIfCreate(pool="chat", knobs={"quantization": "int8"})))


def test_too_little_to_fit_to_is_refused() -> None:
    with pytest.raises(NotFound, match="8 finished requests"):
        forecast(Served(traffic(seed=1, requests=8, per_s=2.0), CONFIG).task(WhatIfCreate(pool="chat")))
    with pytest.raises(NotFound, match="windows with steps"):
        forecast(Served(traffic(seed=1, requests=60, per_s=20.0), CONFIG).task(WhatIfCreate(pool="chat")))


@pytest.mark.slow
def test_middles_alone_are_those_of_whole_forecasts_of_the_same_requests(served: Served) -> None:
    others = [{}, {"max_num_seqs": 2}, {"max_num_batched_tokens": 64}]
    whole = forecast(served.task(WhatIfCreate(pool="chat", others=others)))
    asked = WhatIfCreate(pool="chat", others=[*others, *({"max_num_seqs": n} for n in range(3, 40))], intervals=False)
    middles = forecast(served.task(asked))
    assert len(middles.others) == 40 and all(one.quantiles for one in middles.others)
    for one, other in zip(whole.others, middles.others, strict=False):
        assert other.forecast_class is one.forecast_class
        for name, told in one.quantiles.items():
            assert other.quantiles[name].value_s == pytest.approx(told.value_s, rel=0.25)
    as_is, few = (one.quantiles["ttft:0.95"].value_s for one in middles.others[:2])
    assert few > 1.5 * as_is
