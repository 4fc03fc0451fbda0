"""What a worker has told of its search space is read as it is; anything else it may have told is nothing."""

from typing import Any

import pytest

from tests.web.studies.measured_study import SUMMARY
from tuner.search.space import Capabilities, build_space
from tuner.search.space_told import space_told
from web.studies.what_was_searched import LeftOut, Searched, searched


def test_what_the_tuner_tells_is_read() -> None:
    found = searched(SUMMARY)
    assert found.values["prefill_chunk_size"] == [32, 64, 128, 256, 512, 0]
    assert found.left_out[0] == LeftOut("quantization", ["int4", "fp8"], "the trial node's engine does not run it")
    default = {name: values[0] for name, values in found.values.items()} | {"max_num_seqs": 32}
    able = Capabilities(("none", "int8"))
    told = space_told(build_space({}, default, able), {}, default, able)
    read = searched({"space": told})
    assert read.values == told["values"]
    assert [one.why for one in read.left_out] == [one["why"] for one in told["left_out"]]


@pytest.mark.parametrize(
    "space", [None, 3, [], {"values": [1], "left_out": {"a": 1}}, {"values": {"a knob": [1], "max_num_seqs": 2}}]
)
def test_another_form_is_nothing(space: Any) -> None:
    assert searched({"space": space}) == Searched({}, [])


def test_forecasts_are_read_and_other_forms_are_none() -> None:
    assert searched({"space": {"forecasts": 64}}).forecasts == 64
    assert searched({"space": {"why_no_forecasts": "no twin"}}).why_no_forecasts == "no twin"
    assert searched({"space": {"forecasts": "64", "why_no_forecasts": 3}}) == Searched({}, [])


def test_a_reason_is_wanted() -> None:
    told = [{"knob": "a"}, 3, {"why": 4}, {"why": "it does not run", "values": 3}]
    assert searched({"space": {"left_out": told}}).left_out == [LeftOut("", [], "it does not run")]
