"""Whose value it was: noted beside vLLM's own work, and given up without a trace when vLLM is another."""

import gc
from types import SimpleNamespace
from typing import Any

import pytest
from tailwright_vllm import surprises
from tailwright_vllm.request_details import install, leftovers
from tailwright_vllm.statistics import read

from tests.agents.vllm_plugin.vllm_trees import IterationStats, request_stats


@pytest.fixture(autouse=True)
def _clean(monkeypatch: pytest.MonkeyPatch) -> None:
    leftovers.clear()
    monkeypatch.setattr(surprises.surprises, "counts", {})


@pytest.fixture
def stats_class() -> Any:
    return type("IterationStats", (IterationStats,), dict(vars(IterationStats)))


def _output(prompt: int = 10, cached: int = 4) -> Any:
    return SimpleNamespace(
        new_token_ids=[1], prefill_stats=SimpleNamespace(num_prompt_tokens=prompt, num_cached_tokens=cached)
    )


def test_first_tokens_gaps_and_ends_carry_their_request(stats_class: Any) -> None:
    assert install(stats_class) and install(stats_class)
    request, first = request_stats(), stats_class()
    first.update_from_output(_output(), 3.0, True, request, None, None)
    assert read(None, first).first_tokens == [(1.0, 10, 4)]
    second = stats_class(1000.1)
    second.update_from_output(_output(), 3.25, is_prefilling=False, req_stats=request)  # By name as well.
    assert read(None, second).gaps == []  # Gathered: younger than a quarter of a second.
    third = stats_class(1000.2)
    third.update_from_output(_output(), 3.5, False, request, None, None)
    third.update_from_finished_request("stop", "r1", 10, 5, request, num_cached_tokens=4)
    record = read(None, third)
    assert record.gaps == [([0.25, 0.25], 10, 4, 2)]
    ended = record.finished[0]
    assert (ended.request_id, ended.reason, ended.prompt_tokens, ended.cached_tokens) == ("r1", "stop", 10, 4)
    assert ended.ttft == 1.0


def test_gaps_are_handed_on_when_they_are_old_enough(stats_class: Any) -> None:
    install(stats_class)
    request = request_stats()
    stats_class().update_from_output(_output(), 3.0, True, request)
    got = []
    for number in range(1, 6):
        stats = stats_class(1000.0 + number * 0.1)
        stats.update_from_output(_output(), 3.0 + number * 0.1, False, request)
        got.append(len(read(None, stats).gaps))
    assert got == [0, 0, 0, 1, 0]


def test_gaps_say_how_many_tokens_their_deliveries_held(stats_class: Any) -> None:
    install(stats_class)
    request, stats = request_stats(), stats_class()
    stats.update_from_output(_output(), 3.0, True, request)
    for number, tokens in enumerate((3, 1, 4), 1):
        output = _output()
        output.new_token_ids = [7] * tokens
        stats = stats_class(1000.0 + 0.3 * number)
        stats.update_from_output(output, 3.0 + 0.3 * number, False, request)
        if number == 2:
            (gaps,) = read(None, stats).gaps
            assert (len(gaps.gaps), gaps.tokens) == (2, 4)


@pytest.mark.slow
def test_the_gaps_of_a_request_that_vanished_are_not_lost(stats_class: Any) -> None:
    install(stats_class)
    request, stats = request_stats(), stats_class()
    stats.update_from_output(_output(), 3.0, True, request)
    stats.update_from_output(_output(), 3.5, False, request)
    del request, stats
    gc.collect()
    assert read(None, stats_class()).gaps == [([0.5], 10, 4, 1)]


def test_a_request_that_began_before_is_of_unknown_length(stats_class: Any) -> None:
    request, stats = request_stats(), stats_class()
    stats.update_from_output(_output(), 3.0, True, request)
    install(stats_class)
    later = stats_class(1001.0)
    later.update_from_output(_output(), 3.5, False, request)
    later.update_from_finished_request("length", "r", 10, 5, request)
    assert read(None, later).gaps == [([0.5], None, 0, 1)]


def _older_output(
    self: Any, output: Any, engine_core_timestamp: float, is_prefilling: bool, prompt_len: int, req_stats: Any, *_: Any
) -> None:
    output.prefill_stats = SimpleNamespace(num_prompt_tokens=prompt_len)
    IterationStats.update_from_output(self, output, engine_core_timestamp, is_prefilling, req_stats)
    del output.prefill_stats


def test_an_older_vllm_hands_the_length_over_itself(stats_class: Any) -> None:
    stats_class.update_from_output = _older_output
    assert install(stats_class)
    stats = stats_class()
    stats.update_from_output(SimpleNamespace(new_token_ids=[1], num_cached_tokens=2), 3.0, True, 33, request_stats())
    assert read(None, stats).first_tokens == [(1.0, 33, 2)]


@pytest.mark.parametrize(
    "change",
    [
        lambda made: setattr(made, "update_from_output", lambda self, output: None),
        lambda made: setattr(made, "update_from_output", None),
        lambda made: setattr(made, "update_from_finished_request", lambda self, *args: None),
        lambda made: setattr(made, "update_from_finished_request", 5),
    ],
)
def test_other_methods_are_left_alone_and_told_once(
    stats_class: Any, change: Any, caplog: pytest.LogCaptureFixture
) -> None:
    change(stats_class)
    before = dict(vars(stats_class))
    assert not install(stats_class) and not install(stats_class)
    assert dict(vars(stats_class)) == before
    assert surprises.surprises.counts == {"details": 2}
    assert sum("no prompt lengths" in line for line in caplog.messages) == 1


UNORDERED = complex(3.0)
"""vLLM can subtract it, and the plugin cannot compare it."""


@pytest.mark.parametrize(
    "request_shape",
    [
        SimpleNamespace(**{**vars(request_stats()), "first_token_ts": UNORDERED}),
        type("Slots", (), {"__slots__": tuple(vars(request_stats()))}),
    ],
)
def test_a_surprise_in_the_middle_loses_nothing_and_ends_the_noting(stats_class: Any, request_shape: Any) -> None:
    if isinstance(request_shape, type):
        request_shape = request_shape()
        for name, value in vars(request_stats()).items():
            setattr(request_shape, name, value)
    install(stats_class)
    stats, good = stats_class(), request_stats()
    stats.update_from_output(_output(), 3.0, True, good)
    stats.update_from_output(_output(), 3.0, True, request_shape)
    request_shape.first_token_ts = UNORDERED
    stats.update_from_finished_request("stop", "r", 10, 5, request_shape)
    record = read(None, stats)
    assert [one.prompt_tokens for one in record.first_tokens] == [None, None]  # vLLM's own lists, complete.
    assert len(record.finished) == 1
    later = stats_class()
    later.update_from_output(_output(), 3.5, False, good)
    assert read(None, later).gaps == [([0.5], None, 0, None)]
    assert surprises.surprises.counts == {"details": 1}


def test_an_error_of_vllms_own_reaches_vllm(stats_class: Any) -> None:
    install(stats_class)
    with pytest.raises(AttributeError):
        stats_class().update_from_output(None, 3.0, True, request_stats())
