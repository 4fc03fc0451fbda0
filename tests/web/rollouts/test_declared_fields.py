"""Declared knobs in one field: values, ranges, and what is neither."""

from typing import Any

import pytest

from controlplane.contract.bodies.studies import KnobRange
from controlplane.contract.errors import BadRequest
from web.rollouts.declared_fields import declared_ranges, declared_values


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("block_size=32", {"block_size": 32}),
        (
            "block_size = 32, share=0.25; kv=fp8 eager=true",
            {"block_size": 32, "share": 0.25, "kv": "fp8", "eager": True},
        ),
    ],
)
def test_values(text: str, found: dict[str, Any]) -> None:
    assert declared_values(text) == found


def test_ranges() -> None:
    assert declared_ranges("block_size = 16, 32; share = 0 to 0.5; interval=1..64 log; kv = auto,fp8") == {
        "block_size": KnobRange(choices=[16, 32]),
        "share": KnobRange(minimum=0, maximum=0.5),
        "interval": KnobRange(minimum=1, maximum=64, log=True),
        "kv": KnobRange(choices=["auto", "fp8"]),
    }


@pytest.mark.parametrize("text", ["32", "block_size", "block_size=", "Block=1", "max_num_seqs=8", "x=a/b", "x=[1]"])
def test_what_is_neither_is_refused_at_the_field(text: str) -> None:
    for read in (declared_values, declared_ranges):
        with pytest.raises(BadRequest) as caught:
            read(text)
        assert caught.value.detail["field"] == "declared"
