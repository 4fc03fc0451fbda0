"""One iteration's statistics of vLLM as a record. Raises AttributeError or the like on statistics of another shape.

Attributes that some releases lack are asked for by name with a stated stand-in; those that every release since 0.12
has are not.
"""

import time
from typing import Any, NamedTuple

from tailwright_vllm.records import Finished, FirstToken, Gaps, Iteration
from tailwright_vllm.request_details import leftovers, reason_name


class Load(NamedTuple):
    """What an engine's scheduler last said of itself."""

    running: int
    waiting: int
    kv_usage: float


class Loads:
    """The last word of each engine behind this server process; with data parallelism they are several."""

    def __init__(self) -> None:
        self._of: dict[int, Load] = {}

    def note(self, engine: int, scheduler_stats: Any) -> None:
        waiting = scheduler_stats.num_waiting_reqs + getattr(scheduler_stats, "num_skipped_waiting_reqs", 0)
        self._of[engine] = Load(scheduler_stats.num_running_reqs, waiting, scheduler_stats.kv_cache_usage)

    @property
    def engines(self) -> int:
        """That have said something."""
        return len(self._of)

    def together(self) -> Load:
        """Requests of all engines; the mean of their caches' use."""
        if not self._of:
            return Load(0, 0, 0.0)
        running, waiting, usage = zip(*self._of.values(), strict=True)
        return Load(sum(running), sum(waiting), sum(usage) / len(usage))


def read(scheduler_stats: Any, iteration_stats: Any, loads: Loads | None = None, engine: int = 0) -> Iteration:
    """What both say; either may be None: what is missing of the load is what was last said."""
    drafted = accepted = preemptions = batched = queries = hits = 0
    per_position: list[int] = []
    drafted_per_position: list[int] | None = None
    work: tuple[int, int, int] | None = None
    first_tokens: list[FirstToken] = []
    gaps: list[Gaps] = []
    finished: list[Finished] = []
    loads = Loads() if loads is None else loads
    if scheduler_stats is not None:
        loads.note(engine, scheduler_stats)
        prefix = scheduler_stats.prefix_cache_stats
        queries, hits = (0, 0) if prefix is None else (prefix.queries, prefix.hits)
        work = _work(getattr(scheduler_stats, "perf_stats", None), loads.engines)
        if (drafts := scheduler_stats.spec_decoding_stats) is not None:
            drafted, accepted = drafts.num_draft_tokens, drafts.num_accepted_tokens
            per_position = list(drafts.num_accepted_tokens_per_pos)
            counted = getattr(drafts, "num_draft_tokens_per_pos", None)
            drafted_per_position = None if counted is None else list(counted)
    if iteration_stats is not None:
        preemptions = iteration_stats.num_preempted_reqs
        first_tokens, gaps, finished = _requests(iteration_stats)
        computed = iteration_stats.num_generation_tokens + _prefilled(iteration_stats)
        batched = max(computed - len(iteration_stats.time_to_first_tokens_iter) + drafted - accepted, 0)
    while leftovers:
        gaps.append(leftovers.popleft())
    exact = getattr(scheduler_stats, "iteration_details", None)
    if exact is not None:
        batched = exact.num_ctx_tokens + exact.num_generation_tokens
    taken_up = time.time() if iteration_stats is None else iteration_stats.iteration_timestamp
    return Iteration(
        taken_up, *loads.together(), batched, drafted, accepted, per_position, preemptions, queries, hits,
        first_tokens, gaps, finished, work, drafted_per_position,
    )  # fmt: skip


def _work(perf_stats: Any, engines: int) -> tuple[int, int, int] | None:
    """Each engine tells it of one of its own GPUs: of several engines the mean counts."""
    if perf_stats is None:
        return None
    counted = (perf_stats.num_flops_per_gpu, perf_stats.num_read_bytes_per_gpu, perf_stats.num_write_bytes_per_gpu)
    flops, read, written = (round(amount / engines) for amount in counted)
    return flops, read, written


def _requests(iteration_stats: Any) -> tuple[list[FirstToken], list[Gaps], list[Finished]]:
    details = getattr(iteration_stats, "tailwright", None)
    if details is not None and details.whole:
        return details.first_tokens, details.gaps, details.finished
    first_tokens = [FirstToken(ttft, None, 0) for ttft in iteration_stats.time_to_first_tokens_iter]
    latencies = list(iteration_stats.inter_token_latencies_iter)
    finished = [_plain(one) for one in iteration_stats.finished_requests]
    return first_tokens, [Gaps(latencies, None, 0)] if latencies else [], finished


def _prefilled(iteration_stats: Any) -> int:
    """Prompt tokens computed, of the requests whose first token is in this iteration."""
    stats = getattr(iteration_stats, "prompt_token_stats", None)
    return int(iteration_stats.num_prompt_tokens if stats is None else stats.computed)


def _plain(one: Any) -> Finished:
    """A finished request by what vLLM itself says of it."""
    return Finished(
        request_id=str(getattr(one, "request_id", "")),
        reason=reason_name(one.finish_reason),
        e2e=one.e2e_latency,
        ttft=None,
        tokenize=None,
        queue=one.queued_time,
        prefill=one.prefill_time,
        decode=one.decode_time,
        send=None,
        prompt_tokens=one.num_prompt_tokens,
        cached_tokens=getattr(one, "num_cached_tokens", 0),
        output_tokens=one.num_generation_tokens,
    )
