"""What vLLM's iteration statistics leave out of their lists: whose value it was, and each request's own clock marks.

vLLM calls `IterationStats.update_from_output` and `update_from_finished_request` once for each request's output; both
are given that request's `RequestStateStats`. They are wrapped here: vLLM's own work is done first and unchanged, then
the details are noted beside it. These are internals of vLLM and change: their parameters are found by name, and when
those needed are not there, nothing is wrapped, one line is logged, and the events carry no prompt length.
"""

import inspect
import time
from collections import deque
from typing import Any

from tailwright_vllm.records import Finished, FirstToken, Gaps
from tailwright_vllm.surprises import surprises

GAPS_AGE_S = 0.25
"""Gaps of a request are handed on together, at most about this old, so that a token costs no event of its own."""
_OUTPUT = ("output", "is_prefilling", "req_stats")
_FINISHED = ("req_stats",)
_CONSEQUENCE = "vLLM's iteration statistics are not the known ones; from now on events carry no prompt lengths"

leftovers: "deque[Gaps]" = deque(maxlen=4096)
"""Gaps of requests that vanished without an end of their own, as an aborted one does; taken by the next iteration."""


class Details:
    """What one iteration said about its requests; hangs on its `IterationStats` as `tailwright`."""

    __slots__ = ("finished", "first_tokens", "gaps", "whole")

    def __init__(self) -> None:
        self.first_tokens: list[FirstToken] = []
        self.gaps: list[Gaps] = []
        self.finished: list[Finished] = []
        self.whole = True


class _Own:
    """A request's label and its gathered gaps; hangs on its `RequestStateStats` as `tailwright`."""

    __slots__ = ("cached_tokens", "gaps", "prompt_tokens", "since", "tokens")

    def __init__(self, prompt_tokens: int | None, cached_tokens: int) -> None:
        self.prompt_tokens, self.cached_tokens = prompt_tokens, cached_tokens
        self.gaps: list[float] = []
        self.tokens = 0
        self.since = 0.0

    def take_gaps(self) -> Gaps:
        gaps, self.gaps = self.gaps, []
        tokens, self.tokens = self.tokens, 0
        return Gaps(gaps, self.prompt_tokens, self.cached_tokens, tokens)

    def __del__(self) -> None:
        if self.gaps:
            leftovers.append(self.take_gaps())


class _Call:
    """Finds the wanted ones among a method's arguments, as its signature names them. Raises what does not fit."""

    def __init__(self, method: Any, names: tuple[str, ...]) -> None:
        parameters = list(inspect.signature(method).parameters)[1:]  # The first is `self`.
        self.places = {name: place for place, name in enumerate(parameters)}
        missing = [name for name in names if name not in self.places]
        if missing:
            raise TypeError(f"{method.__qualname__} has no {', '.join(missing)}")

    def take(self, name: str, args: tuple[Any, ...], values: dict[str, Any]) -> Any:
        return values[name] if name in values else args[self.places[name]]


def install(iteration_stats: Any) -> bool:
    """Wrap the two methods of vLLM's class, once. False: this vLLM's are others than those known here."""
    if getattr(iteration_stats, "tailwright_installed", False):
        return True
    try:
        output, finished = iteration_stats.update_from_output, iteration_stats.update_from_finished_request
        output_call, finished_call = _Call(output, _OUTPUT), _Call(finished, _FINISHED)
    except (AttributeError, TypeError, ValueError) as error:
        surprises.note("details", _CONSEQUENCE, error)
        return False
    prompt_len = "prompt_len" in output_call.places  # vLLM up to 0.16 hands the length over; later it is in the output.
    guard = _Guard()

    def update_from_output(self: Any, *args: Any, **values: Any) -> None:
        output(self, *args, **values)
        if guard.whole:
            try:
                result, is_prefilling, req_stats = (output_call.take(name, args, values) for name in _OUTPUT)
                length = output_call.take("prompt_len", args, values) if prompt_len else None
                _note_output(_details(self), self, result, is_prefilling, req_stats, length)
            except Exception as error:  # noqa: BLE001 - vLLM goes on whatever its internals have become.
                guard.give_up(self, error)

    def update_from_finished_request(self: Any, *args: Any, **values: Any) -> None:
        finished(self, *args, **values)
        if guard.whole:
            try:
                _note_finished(_details(self), self, finished_call.take("req_stats", args, values))
            except Exception as error:  # noqa: BLE001 - as above.
                guard.give_up(self, error)

    try:
        iteration_stats.update_from_output = update_from_output
        iteration_stats.update_from_finished_request = update_from_finished_request
        iteration_stats.tailwright_installed = True
    except (AttributeError, TypeError) as error:
        guard.whole = False
        surprises.note("details", _CONSEQUENCE, error)
    return guard.whole


class _Guard:
    """Ends the noting for good at the first surprise, with one line in the log."""

    def __init__(self) -> None:
        self.whole = True

    def give_up(self, stats: Any, error: Exception) -> None:
        self.whole = False
        details = getattr(stats, "tailwright", None)
        if details is not None:
            details.whole = False  # This iteration is told by vLLM's own lists, which are complete.
        surprises.note("details", _CONSEQUENCE, error)


def _details(stats: Any) -> Details:
    details: Details | None = getattr(stats, "tailwright", None)
    if details is None:
        details = stats.tailwright = Details()
    return details


def _note_output(
    details: Details, stats: Any, output: Any, is_prefilling: bool, req_stats: Any, prompt_len: int | None
) -> None:
    if is_prefilling:
        label = req_stats.tailwright = _label(output, prompt_len)
        latency = stats.time_to_first_tokens_iter[-1]
        details.first_tokens.append(FirstToken(latency, label.prompt_tokens, label.cached_tokens))
        return
    own: _Own | None = getattr(req_stats, "tailwright", None)
    if own is None:  # Its first token came before the methods were wrapped.
        own = req_stats.tailwright = _Own(None, 0)
    now = stats.iteration_timestamp
    if not own.gaps:
        own.since = now
    own.gaps.append(stats.inter_token_latencies_iter[-1])
    own.tokens += len(output.new_token_ids)
    if now - own.since >= GAPS_AGE_S:
        details.gaps.append(own.take_gaps())


def _label(output: Any, prompt_len: int | None) -> _Own:
    prefill = getattr(output, "prefill_stats", None)
    if prefill is not None:
        return _Own(int(prefill.num_prompt_tokens), int(prefill.num_cached_tokens))
    cached = getattr(output, "num_cached_tokens", 0)
    return _Own(prompt_len, cached if isinstance(cached, int) else 0)


def _note_finished(details: Details, stats: Any, req_stats: Any) -> None:
    request = stats.finished_requests[-1]
    own: _Own | None = getattr(req_stats, "tailwright", None)
    if own is not None and own.gaps:
        details.gaps.append(own.take_gaps())
    began = req_stats.first_token_ts > 0.0
    to_wall = time.time() - time.monotonic()
    details.finished.append(
        Finished(
            request_id=str(getattr(request, "request_id", "")),
            reason=reason_name(request.finish_reason),
            e2e=request.e2e_latency,
            ttft=req_stats.first_token_latency if began else None,
            tokenize=req_stats.queued_ts + to_wall - req_stats.arrival_time if req_stats.queued_ts else None,
            queue=request.queued_time if req_stats.scheduled_ts else 0.0,
            prefill=request.prefill_time if began else 0.0,
            decode=request.decode_time if began else 0.0,
            send=stats.iteration_timestamp - (req_stats.last_token_ts + to_wall) if began else None,
            prompt_tokens=request.num_prompt_tokens,
            cached_tokens=_cached(request, own),
            output_tokens=request.num_generation_tokens,
        )
    )


def _cached(request: Any, own: _Own | None) -> int:
    told = getattr(request, "num_cached_tokens", None)
    return int(told) if told is not None else own.cached_tokens if own is not None else 0


def reason_name(reason: Any) -> str:
    """stop, length, repetition, abort or error, from vLLM's FinishReason."""
    name = str(reason).lower().rsplit(".", 1)[-1]
    return name if name in ("stop", "length", "repetition", "abort") else "error"
