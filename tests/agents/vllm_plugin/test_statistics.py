"""One iteration as a record: whatever vLLM leaves out is unknown, not zero."""

from types import SimpleNamespace

import pytest
from tailwright_vllm.records import events_of
from tailwright_vllm.request_details import leftovers
from tailwright_vllm.statistics import Loads, read

from tests.agents.vllm_plugin.vllm_trees import IterationStats, scheduler_stats


@pytest.fixture(autouse=True)
def _clean() -> None:
    leftovers.clear()


def _iteration() -> IterationStats:
    """Two requests finished their prompts of 100 tokens; three others decode, with two tokens each."""
    stats = IterationStats()
    stats.time_to_first_tokens_iter = [0.5, 0.6]
    stats.inter_token_latencies_iter = [0.01, 0.02, 0.03]
    stats.prompt_token_stats.computed = 200
    stats.num_generation_tokens = 2 + 6
    return stats


def test_an_iteration_has_the_time_that_its_requests_are_timed_by() -> None:
    """Vllm's own, of when it was taken up: a request's arrival is this less its whole time, to the microsecond."""
    assert read(scheduler_stats(), _iteration()).time == 1000.0


def test_without_the_details_prompt_lengths_are_unknown() -> None:
    record = read(scheduler_stats(), _iteration())
    events = events_of(1, record, 0)
    lengths = {event["kind"]: event["prompt_tokens"] for event in events if event["kind"] != "step"}
    assert lengths == {"first_token": None, "gaps": None}
    assert [event["gaps"] for event in events if event["kind"] == "gaps"] == [[0.01, 0.02, 0.03]]


def test_batched_tokens_are_prompts_verified_drafts_and_decodes() -> None:
    drafts = SimpleNamespace(num_draft_tokens=12, num_accepted_tokens=3, num_accepted_tokens_per_pos=[3, 0, 0, 0])
    record = read(scheduler_stats(spec_decoding_stats=drafts), _iteration())
    assert record.batched_tokens == 200 + 3 + 12  # Three decodes of one token and four drafts, and two prompts.
    assert record.accepted_per_position == [3, 0, 0, 0]
    assert record.drafted_per_position is None and "drafted_per_position" not in events_of(1, record, 0)[0]
    drafts.num_draft_tokens_per_pos = [3, 3, 3, 3]
    record = read(scheduler_stats(spec_decoding_stats=drafts), None)
    assert events_of(1, record, 0)[0]["drafted_per_position"] == [3, 3, 3, 3]


def test_where_vllm_counts_the_iteration_its_own_count_is_taken() -> None:
    counted = SimpleNamespace(num_ctx_tokens=64, num_generation_tokens=3)
    assert read(scheduler_stats(iteration_details=counted), _iteration()).batched_tokens == 67


def test_the_load_is_the_last_one_told_and_that_of_all_engines() -> None:
    loads = Loads()
    assert read(None, _iteration(), loads).running == 0
    read(scheduler_stats(3, kv_cache_usage=0.2, num_skipped_waiting_reqs=2), None, loads, 0)
    record = read(scheduler_stats(4, kv_cache_usage=0.4), None, loads, 1)
    assert (record.running, record.waiting, record.kv_usage) == (7, 2, pytest.approx(0.3))
    assert read(None, _iteration(), loads).running == 7


def test_an_older_vllm_without_token_sources_still_counts() -> None:
    stats = _iteration()
    del stats.prompt_token_stats
    stats.num_prompt_tokens = 220  # type: ignore[attr-defined]
    assert read(scheduler_stats(), stats).batched_tokens == 220 + 6


@pytest.mark.parametrize("missing", ["num_generation_tokens", "inter_token_latencies_iter", "num_preempted_reqs"])
def test_statistics_of_another_shape_are_an_error_for_the_logger_to_meet(missing: str) -> None:
    stats = _iteration()
    delattr(stats, missing)
    with pytest.raises(AttributeError, match=missing):
        read(scheduler_stats(), stats)


def test_work_is_of_one_gpu_also_where_several_engines_tell_it() -> None:
    counted = SimpleNamespace(num_flops_per_gpu=900, num_read_bytes_per_gpu=80, num_write_bytes_per_gpu=10)
    loads = Loads()
    one = read(scheduler_stats(perf_stats=counted), None, loads, 0)
    other = read(scheduler_stats(perf_stats=counted), None, loads, 1)
    assert one.work == (900, 80, 10) and other.work == (450, 40, 5)
    step = events_of(1, one, 0)[0]
    assert (step["flops"], step["read_bytes"], step["write_bytes"]) == (900, 80, 10)
    assert "flops" not in events_of(1, read(scheduler_stats(), None), 0)[0]
