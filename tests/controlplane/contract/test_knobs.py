"""Knobs: bounds, names, hash, schedule."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.contract.errors import KnobOutOfRange, UnknownKnob
from controlplane.contract.knobs import (
    KNOBS,
    EngineConfig,
    Quantization,
    config_hash,
    difference,
    largest,
    parse_config,
)

NUMERIC = [knob for knob in KNOBS.values() if not knob.choices]


def test_unknown_knob_names_the_field_and_the_nearest() -> None:
    with pytest.raises(UnknownKnob) as caught:
        parse_config({"max_num_batched_token": 5}, prefix="knobs.")
    assert caught.value.detail["field"] == "knobs.max_num_batched_token"
    assert "max_num_batched_tokens" in caught.value.message


@pytest.mark.parametrize("knob", NUMERIC, ids=lambda knob: knob.name)
@pytest.mark.parametrize("beyond", ["below", "above", "text", "bool", "float"])
def test_out_of_range_names_the_field(knob, beyond: str) -> None:
    assert knob.minimum is not None and knob.maximum is not None
    value = {"below": knob.minimum - 1, "above": knob.maximum + 1, "text": "8", "bool": True, "float": 1.5}[beyond]
    with pytest.raises(KnobOutOfRange) as caught:
        parse_config({knob.name: value})
    assert caught.value.detail["field"] == knob.name


def test_unknown_quantization_lists_the_choices() -> None:
    with pytest.raises(KnobOutOfRange, match="none, int8, int4, fp8"):
        parse_config({"quantization": "int3"})


def test_schedule_by_batch_size() -> None:
    config = parse_config({"num_speculative_tokens": [[1, 8], [4, 2]]})
    assert [config.draft_length(size) for size in (1, 2, 4, 5)] == [8, 2, 2, 0]


@pytest.mark.parametrize("schedule", [[], [[1]], [[4, 2], [4, 1]], [[1, 99]], "8", [[0, 1]]])
def test_bad_schedule_is_refused(schedule: object) -> None:
    with pytest.raises(KnobOutOfRange) as caught:
        parse_config({"num_speculative_tokens": schedule})
    assert caught.value.detail["field"].startswith("num_speculative_tokens")


@given(st.fixed_dictionaries({}, optional={knob.name: st.integers(knob.minimum, knob.maximum) for knob in NUMERIC}))
def test_equal_configs_have_equal_hashes_and_survive_json(values: dict[str, int]) -> None:
    config = parse_config(values)
    again = parse_config(config.knobs())
    assert again == config
    assert config_hash(again) == config_hash(config)
    assert (config_hash(config) == config_hash(EngineConfig())) == (config == EngineConfig())


class TestDifference:
    def test_each_knob_that_runs_with_another_value(self) -> None:
        assert difference({"b": 2, "a": 1, "c": 5}, {"a": 3, "b": 2, "c": 4, "d": 1}) == {"a": (1, 3), "c": (5, 4)}

    def test_a_knob_that_is_not_reported_counts_as_equal_unless_asked(self) -> None:
        assert difference({"a": 1, "b": None}, {}) == {}
        assert difference({"a": 1, "b": None}, {}, unreported=True) == {"a": (1, None)}

    def test_values_are_equal_when_their_json_is(self) -> None:
        assert difference({"a": ((1, 2),), "q": Quantization.INT8}, {"a": [[1, 2]], "q": "int8"}) == {}
        assert difference({"a": 1, "b": 0}, {"a": True, "b": False}) == {"a": (1, True), "b": (0, False)}


def test_the_largest_of_a_schedule_is_its_longest_draft() -> None:
    assert largest(7) == 7 and largest([[4, 3], [16, 1]]) == 3 and largest(((2, 1), (8, 5))) == 5
