"""Which limits move in a scheduler of which shape, and how low is safe."""

from types import SimpleNamespace
from typing import Any

import pytest
from tailwright_vllm.knob_file import Capacity
from tailwright_vllm.levers import Lever, capacity_of, floor_of, levers_of

from tests.agents.vllm_plugin.vllm_trees import Scheduler, config_of

ALL = {"max_num_batched_tokens", "prefill_chunk_size", "max_num_seqs", "num_speculative_tokens"}


def _levers(scheduler: Any) -> dict[str, Lever]:
    return {lever.name: lever for lever in levers_of(scheduler, capacity_of(scheduler))}


def _fixed(scheduler: Any) -> dict[str, str]:
    return {name: lever.why_not for name, lever in _levers(scheduler).items() if lever.why_not}


def test_all_are_live_in_the_scheduler_of_the_known_shape() -> None:
    assert _fixed(Scheduler(config_of(drafts=4))) == {}


@pytest.mark.parametrize(
    ("change", "fixed", "why"),
    [
        (lambda s: delattr(s, "max_num_scheduled_tokens"), {"max_num_batched_tokens"}, "max_num_scheduled_tokens"),
        (lambda s: setattr(s, "max_num_scheduled_tokens", None), {"max_num_batched_tokens"}, "no max_num_sched"),
        (lambda s: delattr(s.scheduler_config, "long_prefill_token_threshold"), {"prefill_chunk_size"}, "threshold"),
        (
            lambda s: (delattr(s, "max_num_active_reqs"), delattr(s, "max_num_running_reqs")),
            {"max_num_seqs"},
            "max_num_running_reqs",
        ),
        (lambda s: (delattr(s, "max_num_active_reqs"), delattr(s, "running")), {"max_num_seqs"}, "running"),
        (
            lambda s: setattr(s.scheduler_config, "enable_chunked_prefill", False),
            {"max_num_batched_tokens", "prefill_chunk_size"},
            "chunked prefill",
        ),
        (
            lambda s: (
                setattr(s.scheduler_config, "disable_chunked_mm_input", True),
                setattr(s, "max_num_encoder_input_tokens", 64),
            ),
            {"max_num_batched_tokens", "prefill_chunk_size"},
            "multi-modal",
        ),
        (
            lambda s: setattr(s.vllm_config.parallel_config, "data_parallel_size", 2),
            {"num_speculative_tokens"},
            "ranks must agree",
        ),
        (
            lambda s: setattr(s.vllm_config.speculative_config, "method", "medusa"),
            {"num_speculative_tokens"},
            "medusa",
        ),
        (
            lambda s: (
                setattr(s.vllm_config.speculative_config, "method", "eagle"),
                setattr(s.vllm_config.speculative_config, "parallel_drafting", True),
            ),
            {"num_speculative_tokens"},
            "eagle",
        ),
        (
            lambda s: (
                setattr(s.vllm_config.speculative_config, "method", "eagle"),
                setattr(
                    s.vllm_config.compilation_config,
                    "cudagraph_mode",
                    SimpleNamespace(has_full_cudagraphs=lambda: True),
                ),
            ),
            {"num_speculative_tokens"},
            "CUDA graphs",
        ),
        (lambda s: delattr(s, "vllm_config"), {"num_speculative_tokens"}, "vllm_config"),
    ],
)
def test_what_is_missing_or_unsafe_stays_and_says_why(change: Any, fixed: set[str], why: str) -> None:
    scheduler = Scheduler(config_of(drafts=4))
    change(scheduler)
    found = _fixed(scheduler)
    assert set(found) == fixed and all(why in reason for reason in found.values())
    for name in ALL - fixed:
        _levers(scheduler)[name].move(5)


def test_a_frozen_configuration_keeps_its_chunk() -> None:
    class Frozen(SimpleNamespace):
        def __setattr__(self, name: str, value: Any) -> None:
            raise AttributeError("frozen")

    scheduler = Scheduler(config_of())
    scheduler.scheduler_config = Frozen(**vars(scheduler.scheduler_config))
    assert "frozen" in _fixed(scheduler)["prefill_chunk_size"]


def test_without_drafts_their_length_is_fixed_at_none() -> None:
    lever = _levers(Scheduler(config_of()))["num_speculative_tokens"]
    assert (lever.read(), "without drafts" in lever.why_not) == (0, True)


@pytest.mark.parametrize(
    ("drafts", "lookahead", "budget", "chunk"), [(0, 0, 1, 1), (8, 0, 9, 9), (2, 5, 5, 5), (0, 3, 3, 3)]
)
def test_budget_and_chunk_never_go_below_a_padded_decode(drafts: int, lookahead: int, budget: int, chunk: int) -> None:
    scheduler = Scheduler(config_of(drafts))
    scheduler.num_prefill_lookahead = lookahead  # type: ignore[attr-defined]
    floor = floor_of(scheduler, capacity_of(scheduler))
    assert (floor.max_num_batched_tokens, floor.prefill_chunk_size) == (budget, chunk)


def test_the_budget_goes_no_higher_than_it_was_started() -> None:
    scheduler = Scheduler(config_of())
    scheduler.max_num_scheduled_tokens = 900  # vLLM keeps the rest of 1024 for drafts.
    assert capacity_of(scheduler) == Capacity(900, 8, 0)


def test_an_older_scheduler_is_never_told_fewer_requests_than_it_runs() -> None:
    scheduler = Scheduler(config_of())
    del scheduler.max_num_active_reqs
    lever = _levers(scheduler)["max_num_seqs"]
    assert lever.before_step is not None
    scheduler.running = [object()] * 5
    seen = []
    lever.move(2)
    for running in (5, 4, 2, 1, 2):
        scheduler.running = scheduler.running[:running] + [object()] * (running - len(scheduler.running))
        lever.before_step()
        seen.append(scheduler.max_num_running_reqs)
    assert seen == [5, 4, 2, 2, 2]
    assert lever.read() == 2


@pytest.mark.parametrize("method", ["ngram", "suffix"])
def test_where_vllm_has_no_schedule_of_its_own_drafts_are_shortened(method: str) -> None:
    scheduler = Scheduler(config_of(drafts=4))
    scheduler.vllm_config.speculative_config.method = method
    if method == "ngram":
        del scheduler.dynamic_sd_lookup  # vLLM up to 0.23.
    lever = _levers(scheduler)["num_speculative_tokens"]
    assert lever.why_not == "" and lever.before_step is not None
    scheduler.running = [SimpleNamespace(spec_token_ids=[1, 2, 3, 4]), SimpleNamespace(spec_token_ids=[7])]
    lever.before_step()
    assert scheduler.running[0].spec_token_ids == [1, 2, 3, 4]
    lever.move([[1, 4], [2, 2], [8, 0]])
    lever.before_step()
    assert [request.spec_token_ids for request in scheduler.running] == [[1, 2], [7]]
    assert lever.read() == [[1, 4], [2, 2], [8, 0]]


def test_drafts_are_not_shortened_under_asynchronous_scheduling() -> None:
    scheduler = Scheduler(config_of(drafts=4, async_scheduling=True))
    scheduler.vllm_config.speculative_config.method = "suffix"
    assert "suffix" in _fixed(scheduler)["num_speculative_tokens"]


def test_a_schedule_that_vllm_was_started_with_is_read_back() -> None:
    scheduler = Scheduler(config_of(drafts=4))
    scheduler.dynamic_sd_lookup = [4, 4, 4, 2, 2, 2, 2, 2, 2]
    lever = _levers(scheduler)["num_speculative_tokens"]
    assert lever.read() == [[2, 4], [8, 2]]
    lever.move([[100, 3]])
    assert (lever.read(), scheduler.dynamic_sd_lookup) == ([[100, 3]], [3] * 9)
