"""The knob file: checked as a whole, clamped to the started capacity, refused with the field's name."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tailwright_vllm.knob_file import (
    BadKnobFile,
    Capacity,
    Floor,
    KnobFile,
    Wanted,
    draft_lookup,
    parse,
    schedule_of,
)

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


def test_queue_limits_are_a_part_of_their_own_in_vllms_own_terms() -> None:
    limits = {"max_num_queued_reqs": 0, "max_num_queued_tokens": None}
    assert parse(json.dumps({"knobs": {}, "queue_limits": limits}).encode(), CAPACITY).queue_limits == limits
    assert _parse({}).queue_limits == {}
    for name in limits:
        with pytest.raises(BadKnobFile, match=name):
            _parse({name: 4})
        with pytest.raises(BadKnobFile, match=name):
            parse(json.dumps({"knobs": {}, "more": {name: 4}}).encode(), CAPACITY)


def test_the_file_has_news_once_for_each_change(tmp_path: Path) -> None:
    file = KnobFile(tmp_path)
    assert file.news(CAPACITY) is None
    (tmp_path / "knobs.json").write_text('{"knobs": {"max_num_seqs": 3}}')
    assert isinstance(found := file.news(CAPACITY), Wanted) and found.knobs == {"max_num_seqs": 3}
    assert file.news(CAPACITY) is None
    (tmp_path / "knobs.json").write_text("{")
    assert isinstance(wrong := file.news(CAPACITY), BadKnobFile) and "not JSON" in str(wrong)
    assert file.news(CAPACITY) is None


def test_draft_lookup_covers_every_batch_size() -> None:
    assert draft_lookup(2, 3) == [2, 2, 2, 2]
    assert draft_lookup([[2, 4], [4, 1]], 6) == [4, 4, 4, 1, 1, 0, 0]
    assert draft_lookup([[100, 3]], 2) == [3, 3, 3]


@pytest.mark.parametrize(("asked", "value"), [(1, 9), (8, 9), (9, 9), (500, 500)])
def test_values_below_what_is_safe_are_raised_and_named(asked: int, value: int) -> None:
    content = json.dumps({"knobs": {"max_num_batched_tokens": asked, "prefill_chunk_size": asked}}).encode()
    wanted = parse(content, CAPACITY, Floor(9, 9))
    assert wanted.knobs == {"max_num_batched_tokens": value, "prefill_chunk_size": value}
    assert set(wanted.clamped) == (set(wanted.knobs) if asked != value else set())


def test_a_prefill_chunk_that_is_off_stays_off() -> None:
    wanted = parse(b'{"knobs": {"prefill_chunk_size": 0}}', CAPACITY, Floor(9, 9))
    assert (wanted.knobs, wanted.clamped) == ({"prefill_chunk_size": 0}, {})


@pytest.mark.parametrize(("asked", "value"), [("1.5", 1.5), ("3", 3.0), ("null", None)])
def test_the_time_of_the_agents_receipt_is_taken(asked: str, value: float | None) -> None:
    assert parse(b'{"knobs": {}, "asked": %s}' % asked.encode(), CAPACITY).asked == value


@pytest.mark.parametrize("asked", ["-1", "true", '"now"', "NaN", "Infinity", "[]"])
def test_a_time_that_is_none_is_refused(asked: str) -> None:
    with pytest.raises(BadKnobFile, match="asked"):
        parse(b'{"knobs": {}, "asked": %s}' % asked.encode(), CAPACITY)


def test_a_long_error_is_cut() -> None:
    with pytest.raises(BadKnobFile) as refused:
        parse(json.dumps({"knobs": {"x" * 5000: 1}}).encode(), CAPACITY)
    assert len(str(refused.value)) < 400


@settings(derandomize=True)
@given(st.lists(st.integers(0, 8), min_size=1, max_size=20))
def test_a_lookup_survives_being_written_as_a_schedule(lengths: list[int]) -> None:
    lookup = [lengths[0], *lengths]  # Entry 0 stands for no request at all and is never looked up.
    assert draft_lookup(schedule_of(lookup), len(lengths)) == lookup
