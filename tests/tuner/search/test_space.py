"""The search space: ordered, within what the node can, and reversible."""

from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.contract.bodies.studies import KnobRange
from controlplane.contract.errors import KnobOutOfRange, UnknownKnob
from controlplane.contract.knobs import ChangeClass, EngineConfig, canonical_json
from controlplane.contract.reports.declared_knobs import DeclaredKnob
from controlplane.contract.reports.node_memory import NodeMemory
from tuner.search.first_points import first_points
from tuner.search.space import Capabilities, Held, build_space, held_whole, with_starts

DEFAULT = EngineConfig(max_num_batched_tokens=24).knobs()
ABLE = Capabilities(quantization=("none", "int8"))
SPACE = build_space({}, DEFAULT, ABLE)


def test_the_default_space_holds_what_runs_now_and_what_the_node_can() -> None:
    assert SPACE.values["max_num_batched_tokens"][0] == 24
    assert SPACE.values["prefill_chunk_size"][-1] == 0
    assert SPACE.values["quantization"] == ["none", "int8"]
    assert SPACE.fixed == {"max_num_seqs": 32}
    assert SPACE.complete(SPACE.chosen(DEFAULT)) == DEFAULT


@given(st.data())
def test_chosen_and_complete_are_inverse_but_for_unreachable_chunks(data: st.DataObject) -> None:
    chosen = {name: data.draw(st.sampled_from(values)) for name, values in SPACE.values.items()}
    knobs = SPACE.complete(chosen)
    assert SPACE.complete(SPACE.chosen(knobs)) == knobs
    assert knobs["prefill_chunk_size"] < knobs["max_num_batched_tokens"]


def test_values_are_stored_as_they_are_and_schedules_as_text() -> None:
    space = build_space({"num_speculative_tokens": KnobRange(choices=[0, 4, [[1, 6], [4, 2]]])}, DEFAULT, ABLE)
    knobs = space.complete({"num_speculative_tokens": [[1, 6], [4, 2]]})
    assert space.params(knobs) == {"num_speculative_tokens": "[[1, 6], [4, 2]]"}
    assert SPACE.params(DEFAULT)["max_num_batched_tokens"] == 24
    for name, distribution in SPACE.distributions().items():
        assert distribution._contains(distribution.to_internal_repr(SPACE.params(DEFAULT)[name]))


def test_places_follow_the_order_of_effect() -> None:
    ladder = [DEFAULT | {"max_num_batched_tokens": tokens} for tokens in SPACE.values["max_num_batched_tokens"]]
    places = SPACE.places(ladder)[:, list(SPACE.values).index("max_num_batched_tokens")]
    assert places[0] == 0 and places[-1] == 1 and (np.diff(places) > 0).all()
    assert list(SPACE.ordered) == [name != "quantization" for name in SPACE.values]


def test_all_configurations_that_may_run_each_once() -> None:
    found = SPACE.configurations(Random(0))
    assert len({canonical_json(knobs) for knobs in found}) == len(found) > 500
    assert not any(SPACE.infeasible(knobs) for knobs in found) and DEFAULT in found
    assert 50 < len(SPACE.configurations(Random(0), 100)) <= 100


def test_a_node_that_cannot_quantize_or_speculate_is_not_asked_to() -> None:
    space = build_space({}, DEFAULT, Capabilities(maximum={"max_num_batched_tokens": 256, "num_speculative_tokens": 0}))
    assert space.values.keys() == {"max_num_batched_tokens", "prefill_chunk_size"}
    assert max(space.values["max_num_batched_tokens"]) == 256


def test_ranges_of_a_study() -> None:
    wanted = {
        "max_num_batched_tokens": KnobRange(minimum=64, maximum=1024, log=True),
        "num_speculative_tokens": KnobRange(choices=[0, 4, [[1, 6], [4, 2]]]),
        "max_num_seqs": KnobRange(minimum=4, maximum=8),
    }
    space = build_space(wanted, DEFAULT, ABLE)
    assert space.values["max_num_batched_tokens"][:2] == [24, 64] and len(space.values["max_num_batched_tokens"]) == 14
    assert space.values["num_speculative_tokens"] == [0, 4, [[1, 6], [4, 2]]]
    assert space.values["max_num_seqs"] == [4, 5, 6, 7, 8, 32]
    assert "quantization" in space.fixed
    assert space.complete(space.chosen(DEFAULT)) == DEFAULT


def test_wrong_ranges_are_named() -> None:
    with pytest.raises(UnknownKnob, match="max_num_seqs"):
        build_space({"max_num_seq": KnobRange(choices=[1])}, DEFAULT, ABLE)
    with pytest.raises(KnobOutOfRange, match="below the minimum"):
        build_space({"max_num_seqs": KnobRange(minimum=9, maximum=3)}, DEFAULT, ABLE)


def test_known_infeasible() -> None:
    assert "drafts" in SPACE.infeasible({**DEFAULT, "max_num_batched_tokens": 4, "num_speculative_tokens": 8})
    vllm = build_space({}, DEFAULT, Capabilities(tokens_at_least_seqs=True))
    assert "sequences" in vllm.infeasible(DEFAULT)
    assert not SPACE.infeasible(DEFAULT)


def test_what_the_nodes_memory_cannot_hold_is_never_proposed() -> None:
    memory = NodeMemory(limit_bytes=1000, kv_cache_memory_bytes=400, activation_bytes_per_token=1)
    space = build_space({}, DEFAULT, Capabilities(held=Held(memory, DEFAULT)))
    assert "does not fit the memory" in space.infeasible({**DEFAULT, "max_num_batched_tokens": 768})
    proposed = {knobs["max_num_batched_tokens"] for knobs in space.configurations(Random(1))}
    assert 512 in proposed and not proposed & {768, 1024, 1536, 2048}
    silent = build_space({}, DEFAULT, Capabilities(held=Held(NodeMemory(), DEFAULT)))
    assert not silent.infeasible({**DEFAULT, "max_num_batched_tokens": 2048})


DECLARED = {
    "block_size": DeclaredKnob(change_class=ChangeClass.RESTART, start=16, values=(16, 32, 64)),
    "share": DeclaredKnob(change_class=ChangeClass.LIVE, start=0.0, minimum=0, maximum=0.9),
    "interval": DeclaredKnob(change_class=ChangeClass.LIVE, start=1, minimum=1, maximum=64, log=True),
    "kv": DeclaredKnob(change_class=ChangeClass.RESTART, start="auto", values=("auto", "fp8")),
}
OWN = Capabilities(quantization=("none", "int8"), declared=DECLARED)


@pytest.mark.parametrize(
    ("name", "wanted", "values"),
    [
        ("block_size", KnobRange(choices=[64, 16]), [16, 64]),
        ("block_size", KnobRange(choices=[32.0, 128]), [16, 32]),
        ("share", KnobRange(choices=[0, 0.5]), [0.0, 0.5]),
        ("interval", KnobRange(minimum=1, maximum=4), [1, 2, 3, 4]),
        ("interval", KnobRange(minimum=1, maximum=64, log=True), [1, 2, 3, 4, 6, 8, 11, 16, 23, 32, 45, 64]),
        ("kv", KnobRange(choices=["fp8"]), ["auto", "fp8"]),
    ],
)
def test_declared_knobs_are_searched_by_name(name: str, wanted: KnobRange, values: list[Any]) -> None:
    default = with_starts(DEFAULT, {name: wanted}, DECLARED)
    space = build_space({name: wanted}, default, OWN)
    assert space.values == {name: values}
    assert [type(one) for one in space.values[name]] == [type(one) for one in values]
    assert list(space.ordered) == [name != "kv"]
    assert {canonical_json(space.complete(space.chosen(default | {name: one}))[name]) for one in values} == {
        canonical_json(one) for one in values
    }
    assert len(first_points(space, default)) == 3


def test_fractions_are_searched_between_their_bounds() -> None:
    space = build_space({"share": KnobRange(minimum=0, maximum=0.9)}, DEFAULT | {"share": 0.0}, OWN)
    assert space.values["share"][0] == 0.0 and space.values["share"][-1] == 0.9 and len(space.values["share"]) == 13
    assert all(isinstance(one, float) for one in space.values["share"])


def test_one_that_the_trial_node_does_not_declare_is_refused() -> None:
    with pytest.raises(UnknownKnob, match="the trial node declares no such knob"):
        build_space({"block_size": KnobRange(choices=[16])}, DEFAULT, ABLE)


def test_what_the_pool_leaves_out_is_as_at_the_start_and_only_where_it_is_searched() -> None:
    assert with_starts(DEFAULT, {"kv": KnobRange(choices=["fp8"])}, DECLARED) == DEFAULT | {"kv": "auto"}
    assert with_starts(DEFAULT | {"kv": "fp8"}, {"kv": KnobRange(choices=["fp8"])}, DECLARED)["kv"] == "fp8"


def test_what_is_suggested_is_measured_as_it_stands() -> None:
    """Neither a knob that the default space lacks nor a value beside its grid is dropped or moved to a neighbour."""
    suggested = [{"max_num_seqs": 16, "quantization": "int8"}, {"max_num_batched_tokens": 200}]
    space = build_space({}, DEFAULT, ABLE, suggested)
    assert space.values["max_num_seqs"] == [16, 32] and 200 in space.values["max_num_batched_tokens"]
    assert space.values["max_num_batched_tokens"] == sorted(space.values["max_num_batched_tokens"])
    whole = held_whole(space, DEFAULT, suggested, {})
    assert whole == [DEFAULT | knobs for knobs in suggested]
    assert [space.complete(space.chosen(knobs)) for knobs in whole] == whole


def test_of_what_is_suggested_only_what_the_trial_node_takes_is_measured() -> None:
    able = Capabilities(maximum={"max_num_seqs": 64}, declared=DECLARED)
    suggested = [{"quantization": "fp8"}, {"max_num_seqs": 128}, {"share": 0.5, "max_num_seqs": 64}, {"share": 0}]
    default = with_starts(DEFAULT, {"share", "max_num_seqs"}, DECLARED)
    wanted = {"max_num_batched_tokens": KnobRange(choices=[64])}
    space = build_space(wanted, default, able, suggested)
    assert space.values == {"max_num_batched_tokens": [24, 64], "max_num_seqs": [32, 64], "share": [0.0, 0.5]}
    assert held_whole(space, default, suggested, DECLARED) == [
        default | {"share": 0.5, "max_num_seqs": 64},
        default | {"share": 0.0},
    ]
    with pytest.raises(UnknownKnob, match="the trial node declares no such knob"):
        build_space({}, DEFAULT, ABLE, suggested)
