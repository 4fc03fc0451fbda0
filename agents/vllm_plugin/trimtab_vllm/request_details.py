"""What vLLM's iteration statistics leave out of their lists: whose value it was, and each request's own clock marks.

vLLM calls `IterationStats.update_from_output` and `update_from_finished_request` once for each request's output; both
are given that request's `RequestStateStats`. They are wrapped here: vLLM's own work is done first and unchanged, then
the details are noted beside it. These are internals of vLLM and may change: when their parameters are not the ones
known here, nothing is wrapped, one line is logged, and the events carry no prompt length.
"""

import inspect
import logging
import time
from typing import Any

from trimtab_vllm.records import Finished, FirstToken, Gaps

log = logging.getLogger("trimtab_vllm")

UNKNOWN_LENGTH = 0
GAPS_AGE_S = 0.25
"""Gaps of a request are handed on together, at most about this old, so that a token costs no event of its own."""
_OUTPUT_PARAMETERS = ("self", "output", "engine_core_timestamp", "is_prefilling", "req_stats")
_FINISHED_PARAMETERS = ("self", "finish_reason", "request_id", "num_prompt_tokens", "max_tokens_param", "req_stats")


class Details:
    """What one iteration said about its requests; hangs on its `IterationStats` as `trimtab`."""

    __slots__ = ("finished", "first_tokens", "gaps")

    def __init__(self) -> None:
        self.first_tokens: list[FirstToken] = []
        self.gaps: list[Gaps] = []
        self.finished: list[Finished] = []


class _Own:
    """A request's label and its gathered gaps; hangs on its `RequestStateStats` as `trimtab`."""

    __slots__ = ("cached_tokens", "gaps", "prompt_tokens", "since")

    def __init__(self, prompt_tokens: int, cached_tokens: int) -> None:
        self.prompt_tokens, self.cached_tokens = prompt_tokens, cached_tokens
        self.gaps: list[float] = []
        self.since = 0.0

    def take_gaps(self) -> Gaps:
        gaps, self.gaps = self.gaps, []
        return Gaps(gaps, self.prompt_tokens, self.cached_tokens)


def install(iteration_stats: Any) -> bool:
    """Wrap the two methods of vLLM's class, once. False: this vLLM's are others than those known here."""
    if getattr(iteration_stats, "trimtab_installed", False):
        return True
    try:
        output, finished = iteration_stats.update_from_output, iteration_stats.update_from_finished_request
        known = _begins_with(output, _OUTPUT_PARAMETERS) and _begins_with(finished, _FINISHED_PARAMETERS)
    except (AttributeError, TypeError, ValueError):
        known = False
    if not known:
        log.warning("trimtab: this vLLM's iteration statistics are not the known ones; no prompt lengths in events")
        return False
    guard = _Guard()

    def update_from_output(
        self: Any,
        result: Any,
        timestamp: float,
        is_prefilling: bool,
        req_stats: Any,
        *rest: Any,
        **more: Any,
    ) -> None:
        output(self, result, timestamp, is_prefilling, req_stats, *rest, **more)
        if guard.whole:
            try:
                _note_output(_details(self), self, result, is_prefilling, req_stats)
            except Exception as error:  # noqa: BLE001 - vLLM goes on whatever its internals have become.
                guard.give_up(error)

    def update_from_finished_request(self: Any, *args: Any, **values: Any) -> None:
        finished(self, *args, **values)
        if guard.whole:
            try:
                request = inspect_finished(self, args, values)
                _note_finished(_details(self), self, request)
            except Exception as error:  # noqa: BLE001 - as above.
                guard.give_up(error)

    iteration_stats.update_from_output = update_from_output
    iteration_stats.update_from_finished_request = update_from_finished_request
    iteration_stats.trimtab_installed = True
    return True


def inspect_finished(stats: Any, args: tuple[Any, ...], values: dict[str, Any]) -> Any:
    """The request's `RequestStateStats` among the call's arguments."""
    place = _FINISHED_PARAMETERS.index("req_stats") - 1
    return values["req_stats"] if "req_stats" in values else args[place]


class _Guard:
    """Ends the noting for good at the first surprise, with one line in the log."""

    def __init__(self) -> None:
        self.whole = True

    def give_up(self, error: Exception) -> None:
        self.whole = False
        log.warning(
            "trimtab: vLLM's iteration statistics surprised (%s: %s); from now on events carry no prompt lengths",
            type(error).__name__,
            error,
        )


def _begins_with(function: Any, names: tuple[str, ...]) -> bool:
    return tuple(inspect.signature(function).parameters)[: len(names)] == names


def _details(stats: Any) -> Details:
    details = getattr(stats, "trimtab", None)
    if details is None:
        details = stats.trimtab = Details()
    return details  # type: ignore[no-any-return]


def _note_output(details: Details, stats: Any, output: Any, is_prefilling: bool, req_stats: Any) -> None:
    if is_prefilling:
        prefill = output.prefill_stats
        own = req_stats.trimtab = _Own(
            UNKNOWN_LENGTH if prefill is None else prefill.num_prompt_tokens,
            0 if prefill is None else prefill.num_cached_tokens,
        )
        details.first_tokens.append(FirstToken(req_stats.first_token_latency, own.prompt_tokens, own.cached_tokens))
        return
    own = req_stats.trimtab
    now = stats.iteration_timestamp
    if not own.gaps:
        own.since = now
    own.gaps.append(stats.inter_token_latencies_iter[-1])
    if now - own.since >= GAPS_AGE_S:
        details.gaps.append(own.take_gaps())


def _note_finished(details: Details, stats: Any, req_stats: Any) -> None:
    request = stats.finished_requests[-1]
    own: _Own | None = getattr(req_stats, "trimtab", None)
    if own is not None and own.gaps:
        details.gaps.append(own.take_gaps())
    began = req_stats.first_token_ts > 0.0
    to_wall = time.time() - time.monotonic()
    details.finished.append(
        Finished(
            request_id=str(request.request_id),
            reason=reason_name(request.finish_reason),
            e2e=request.e2e_latency,
            ttft=req_stats.first_token_latency if began else None,
            tokenize=req_stats.queued_ts + to_wall - req_stats.arrival_time if req_stats.queued_ts else None,
            queue=request.queued_time if req_stats.scheduled_ts else 0.0,
            prefill=request.prefill_time if began else 0.0,
            decode=request.decode_time if began else 0.0,
            send=stats.iteration_timestamp - (req_stats.last_token_ts + to_wall) if began else None,
            prompt_tokens=request.num_prompt_tokens,
            cached_tokens=request.num_cached_tokens,
            output_tokens=request.num_generation_tokens,
        )
    )


def reason_name(reason: Any) -> str:
    """stop, length, abort or error, from vLLM's FinishReason."""
    name = str(reason).lower().rsplit(".", 1)[-1]
    return name if name in ("stop", "length", "abort") else "error"
