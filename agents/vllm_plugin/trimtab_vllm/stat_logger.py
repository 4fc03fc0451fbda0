"""vLLM's stat-logger plugin: takes each iteration's raw statistics and leaves them for the feed.

Guarantee: `record` makes a small record and puts it into a bounded ring; it never waits, never writes, and never raises
into vLLM. Whatever it cannot read of vLLM's statistics ends the recording with one line in the log: the agent then
falls back to /metrics.
"""

import logging
import time
from typing import Any

from vllm.v1.metrics.loggers import StatLoggerBase
from vllm.v1.metrics.stats import IterationStats

from trimtab_vllm.feed import Feed, shared_feed
from trimtab_vllm.folder import VARIABLE, shared_folder
from trimtab_vllm.records import Finished, FirstToken, Gaps, Iteration
from trimtab_vllm.request_details import UNKNOWN_LENGTH, install, reason_name

log = logging.getLogger("trimtab_vllm")


class TrimtabStatLogger(StatLoggerBase):
    """One per engine of this server process; they share one feed."""

    def __init__(self, vllm_config: Any, engine_index: int = 0) -> None:
        self._feed: Feed | None = None
        try:
            folder = shared_folder()
            if folder is None:
                log.info("trimtab: idle, %s is not set", VARIABLE)
                return
            install(IterationStats)
            self._feed = shared_feed(folder, _model_name(vllm_config))
        except Exception as error:  # noqa: BLE001 - vLLM must come up whatever is wrong with the plugin.
            log.warning("trimtab: no raw statistics: %s: %s", type(error).__name__, error)

    def record(
        self,
        scheduler_stats: Any,
        iteration_stats: Any,
        mm_cache_stats: Any = None,
        engine_idx: int = 0,
        **later_versions: Any,
    ) -> None:
        if self._feed is None or (scheduler_stats is None and iteration_stats is None):
            return
        try:
            iteration = read(scheduler_stats, iteration_stats)
            self._feed.ring.append(iteration, iteration.events)
        except Exception as error:  # noqa: BLE001 - vLLM goes on whatever its statistics have become.
            log.warning("trimtab: recording ended, vLLM's statistics surprised: %s: %s", type(error).__name__, error)
            self._feed.close()
            self._feed = None

    def log_engine_initialized(self) -> None:
        if self._feed is not None:
            log.info("trimtab: raw statistics at %s", self._feed.path)


def read(scheduler_stats: Any, iteration_stats: Any) -> Iteration:
    """What both say; either may be None."""
    drafted = accepted = preemptions = batched = queries = hits = 0
    running, waiting, usage = 0, 0, 0.0
    per_position: list[int] = []
    first_tokens: list[FirstToken] = []
    gaps: list[Gaps] = []
    finished: list[Finished] = []
    if scheduler_stats is not None:
        running, waiting = scheduler_stats.num_running_reqs, scheduler_stats.num_waiting_reqs
        usage = scheduler_stats.kv_cache_usage
        queries, hits = scheduler_stats.prefix_cache_stats.queries, scheduler_stats.prefix_cache_stats.hits
        if (drafts := scheduler_stats.spec_decoding_stats) is not None:
            drafted, accepted = drafts.num_draft_tokens, drafts.num_accepted_tokens
            per_position = list(drafts.num_accepted_tokens_per_pos)
    if iteration_stats is not None:
        preemptions = iteration_stats.num_preempted_reqs
        batched = iteration_stats.num_generation_tokens + iteration_stats.prompt_token_stats.computed
        details = getattr(iteration_stats, "trimtab", None)
        if details is not None:
            first_tokens, gaps, finished = details.first_tokens, details.gaps, details.finished
        else:
            first_tokens = [FirstToken(ttft, UNKNOWN_LENGTH, 0) for ttft in iteration_stats.time_to_first_tokens_iter]
            if iteration_stats.inter_token_latencies_iter:
                gaps = [Gaps(iteration_stats.inter_token_latencies_iter, UNKNOWN_LENGTH, 0)]
            finished = [_plain(one) for one in iteration_stats.finished_requests]
    return Iteration(
        time.time(), running, waiting, usage, batched, drafted, accepted, per_position, preemptions, queries, hits,
        first_tokens, gaps, finished,
    )  # fmt: skip


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


def _model_name(vllm_config: Any) -> str:
    served = vllm_config.model_config.served_model_name
    return str(served[0] if isinstance(served, list | tuple) else served)
