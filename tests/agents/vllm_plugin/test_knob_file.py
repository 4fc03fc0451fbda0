"""The knob file: checked as a whole, clamped to the started capacity, refused with the field's name."""

import json
from typing import Any

import pytest
from trimtab_vllm.knob_file import BadKnobFile, Capacity, draft_lookup, parse

CAPACITY = Capacity(max_num_batched_tokens=1024, max_num_seqs=8, num_speculative_tokens=4)


def _parse(knobs: Any, revision: Any = 3) -> Any:
    return parse(json.dumps({"revision": revision, "knobs": knobs}).encode(), CAPACITY)


def test_values_within_the_capacity_are_taken_as_they_are() -> None:
    wanted = _parse({"max_num_batched_tokens": 200, "prefill_chunk_size": 0, "max_num_seqs": 8})
    assert wanted.knobs == {"max_num_batched_tokens": 200, "prefill_chunk_size": 0, "max_num_seqs": 8}
    assert (wanted.revision, wanted.clamped) == (3, {})


def test_values_above_the_capacity_are_clamped_and_named() -> None:
    wanted = _parse({"max_num_batched_tokens": 4096, "num_speculative_tokens": [[2, 8], [8, 1]]})
    assert wanted.knobs == {"max_num_batched_tokens": 1024, "num_speculative_tokens": [[2, 4], [8, 1]]}
    assert wanted.clamped == {"max_num_batched_tokens": 4096, "num_speculative_tokens": [[2, 8], [8, 1]]}


@pytest.mark.parametrize(
    ("content", "named"),
    [
        (b"{half", "not JSON"),
        (b"[]", "knobs"),
        (b'{"knobs": 1}', "knobs"),
        (b'{"knobs": {}, "revision": -1}', "revision"),
        (b'{"knobs": {"max_num_seqs": 0}}', "max_num_seqs"),
        (b'{"knobs": {"max_num_seqs": true}}', "max_num_seqs"),
        (b'{"knobs": {"max_num_seqs": 2.5}}', "max_num_seqs"),
        (b'{"knobs": {"quantization": "int8"}}', "quantization"),
        (b'{"knobs": {"num_speculative_tokens": []}}', "num_speculative_tokens"),
        (b'{"knobs": {"num_speculative_tokens": [[4, 1], [2, 1]]}}', "must rise"),
        (b'{"knobs": {"num_speculative_tokens": [[4]]}}', "num_speculative_tokens"),
    ],
)
def test_what_cannot_be_followed_is_refused_with_its_name(content: bytes, named: str) -> None:
    with pytest.raises(BadKnobFile, match=named):
        parse(content, CAPACITY)


def test_draft_lookup_covers_every_batch_size() -> None:
    assert draft_lookup(2, 3) == [2, 2, 2, 2]
    assert draft_lookup([[2, 4], [4, 1]], 6) == [4, 4, 4, 1, 1, 0, 0]
    assert draft_lookup([[100, 3]], 2) == [3, 3, 3]
