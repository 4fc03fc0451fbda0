"""Re-tune advice: told of what has drifted, with the form of the study to ask for; silent where traffic is alike."""

import json
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest

from controlplane.advice.mix_advice import mix_advice
from controlplane.advice.pool_advice import advice_of
from controlplane.contract.bodies.studies import KnobRange, Objective
from controlplane.contract.bodies.workload import Workload
from controlplane.contract.planning.advice import MixPart, MixState
from controlplane.contract.planning.traffic_mix import TrafficMix, mix_of
from tests.controlplane.advice.advised_pool import LIMITS, TUNED, figures, measured_then
from tuner.workload.generate import CONV, generate
from tuner.workload.rescale import scale_rate
from web.studies.wanted_study import wanted_study


@cache
def now() -> Workload:
    return generate(CONV, seed=2, rate_per_s=5, requests=1500)


def mix(**changed: Any) -> TrafficMix:
    made = now().model_copy(
        update={"requests": [one.model_copy(update={k: f(one) for k, f in changed.items()}) for one in now().requests]}
    )
    return mix_of(made)


@pytest.mark.slow
def test_the_same_traffic_of_another_hour_is_alike() -> None:
    found = mix_advice(measured_then(), mix())
    assert found.state is MixState.ALIKE and found.study == ""
    assert found.says == "The traffic is still much as study 7 was measured on."
    assert {part.part for part in found.parts} == set(MixPart) and not any(part.drifted for part in found.parts)


@pytest.mark.parametrize(
    ("made", "part", "says"),
    [
        (lambda: mix(input_length=lambda one: 2 * one.input_length), MixPart.PROMPTS, "prompts are longer"),
        (lambda: mix(output_length=lambda one: one.output_length // 3), MixPart.ANSWERS, "answers are shorter"),
        (lambda: mix(hash_ids=lambda one: []), MixPart.PREFIXES, "less of the prompts is repeated"),
        (lambda: mix_of(scale_rate(now(), 4.0)), MixPart.ARRIVALS, "requests come more often"),
    ],
)
def test_what_has_drifted_is_told_first_with_the_study_to_ask_for(
    made: Callable[[], TrafficMix], part: MixPart, says: str
) -> None:
    found = mix_advice(measured_then(), made())
    assert found.state is MixState.DRIFTED and found.parts[0].part is part and found.parts[0].drifted
    assert says in found.says and found.says.endswith("Tune the pool again.")
    address = urlsplit(found.study)
    assert address.path == "/studies/new"
    read = wanted_study(dict(parse_qsl(address.query)))
    assert read.study is not None, read.problems
    assert (read.study.pool, read.study.aim, read.study.constraints) == ("chat", TUNED.aim, LIMITS)
    assert read.study.trial_requests == 200 and says in read.study.reason and read.study.workload == ""


def test_the_form_has_all_of_the_old_study_but_what_it_replayed() -> None:
    space = {
        "max_num_seqs": KnobRange(minimum=16, maximum=128, log=True),
        "num_speculative_tokens": KnobRange(choices=[0, 4, [[4, 5], [16, 2]]]),
        "quantization": KnobRange(choices=["none", "int8"]),
        "block_size": KnobRange(choices=[16, 32]),
        "watermark": KnobRange(minimum=0, maximum=0.5),
    }
    also = [Objective(objective="tpot", objective_q=0.5), Objective(objective="goodput")]
    old = {"load": 1.5, "workload": "friday", "workload_s": 900, "space": space, "also": also}
    must = {"max_lost_share": 0.005, "least_agreement": 0.8, "evaluation": "mmlu", "evaluation_margin": 0.02}
    must |= {"most_logprob_drop": 0.0, "also_tolerance": 0.03, "node_hour_price": 2.4, "currency": "EUR"}
    old |= must
    then = replace(measured_then(), spec=TUNED.model_copy(update=old))
    found = mix_advice(then, mix(input_length=lambda one: 2 * one.input_length))
    read = wanted_study(dict(parse_qsl(urlsplit(found.study).query)))
    assert read.study is not None, read.problems
    assert (read.study.load, read.study.workload_s, read.study.workload) == (1.5, 900, "")
    assert read.study.also == also
    assert read.study.model_dump(include=set(must)) == must, "what a winner must hold is asked of the next one, too"
    assert read.study.space.keys() == space.keys()
    for name, one in space.items():
        read_of = read.study.space[name]
        assert (read_of.minimum, read_of.maximum, read_of.log) == (one.minimum, one.maximum, one.log)
        assert _plain(read_of.choices) == one.choices


def test_what_no_address_holds_is_left_out() -> None:
    space = {"max_num_seqs": KnobRange(choices=list(range(1, 120))), "prefill_chunk_size": KnobRange(choices=[64, 128])}
    then = replace(measured_then(), spec=TUNED.model_copy(update={"space": space}))
    said = dict(parse_qsl(urlsplit(mix_advice(then, mix(hash_ids=lambda one: [])).study).query))
    assert "max_num_seqs" not in said and said["prefill_chunk_size"] == "64, 128"


def _plain(choices: list[Any] | None) -> list[Any] | None:
    return None if choices is None else json.loads(json.dumps(choices))


def test_of_too_few_requests_nothing_is_told() -> None:
    few = mix_of(now().model_copy(update={"requests": now().requests[:250]}))
    found = mix_advice(measured_then(), few)
    assert found.state is MixState.TOO_LITTLE and found.parts == [] and "150 now and 1400 then" in found.says
    assert mix_advice(measured_then(), None).state is MixState.TOO_LITTLE


def test_a_pool_that_was_never_tuned_has_none() -> None:
    assert advice_of(figures(mix=mix()), 2).mix is None
    told = advice_of(figures(mix=mix()), 2, measured_then()).mix
    assert told is not None and told.study_id == 7
