"""The terms of a node's steps, window by window, from what telemetry keeps: requests' waterfalls and sums of steps.

Telemetry has no single step. But costs are linear in the terms (step_terms.py), so that a window's seconds are the cost
of its summed terms, and these follow from when each request was computed: prompts evenly between first schedule and
first token, outputs evenly from there to the last one. Only windows that every request of which has ended are used.
With drafts a step may give a request several tokens, and computes and samples what was drafted, kept or not.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from controlplane.contract.bodies.workload import RequestRecord
from controlplane.contract.knobs import EngineConfig
from controlplane.contract.planning.whatif import ComputedSpan, StepWindow, in_windows, span_of
from tuner.twin.costs.nonnegative_fit import Row
from tuner.twin.costs.step_terms import NAMES

_FEWEST_STEPS = 3
_ONE_PACE = 6
"""So many windows after each other are taken to have one pace."""
_DECODED = len(NAMES)
"""Beside the terms of prompts: tokens decoded, and after it the keys and values that they would read one by one."""
SAME_STEP_S = 5e-4
"""Of two requests: what is less apart was in one step."""

Computed = tuple[ComputedSpan, RequestRecord]


def piece_of(config: EngineConfig) -> int:
    """The most of one prompt that a step may compute."""
    return min(config.max_num_batched_tokens, config.prefill_chunk_size or config.max_num_batched_tokens)


def rows(records: Iterable[RequestRecord], windows: Iterable[StepWindow], piece: int) -> list[Row]:
    """A row for each window whose steps are known. piece: as of `piece_of`."""
    by_node: dict[str, dict[int, list[float]]] = defaultdict(lambda: defaultdict(_none))
    known = list(windows)
    width_s = known[0].width_s if known else 1.0
    for record in records:
        _add(by_node[record.node], record, width_s, piece)
    told = [(window, by_node[window.node].get(round(window.start_s / width_s), _none())) for window in known]
    decoded = sum(amounts[_DECODED] for _, amounts in told)
    delivered = 1.0
    if decoded and any(window.drafted for window in known):
        delivered = min(1.0, sum(window.deliveries for window in known) / decoded)
    found = []
    for window, amounts in told:
        if window.steps < _FEWEST_STEPS or window.seconds <= 0.0:
            continue
        _, tokens, prompts, sampled, context, attended, decodes, read = amounts
        decodes = delivered * decodes + window.drafted
        terms = (window.steps, tokens + decodes, prompts, sampled + decodes, context + delivered * read, attended)
        found.append(Row(terms, window.seconds, stretch_of(round(window.start_s / width_s))))
    return found


def stretch_of(window: int) -> int:
    """Of this number since the epoch."""
    return window // _ONE_PACE


def _none() -> list[float]:
    return [0.0] * (_DECODED + 2)


def _add(windows: dict[int, list[float]], record: RequestRecord, width_s: float, piece: int) -> None:
    span, outputs = span_of(record), max(0, record.output_tokens - 1)
    for number, share in _shares(span.scheduled_s, span.first_token_s, width_s):
        for place, amount in enumerate(prompt_terms(record, piece), 1):
            windows[number][place] += share * amount
    for number, share in _shares(span.first_token_s, span.last_token_s, width_s):
        given = share * outputs
        windows[number][_DECODED] += given
        windows[number][_DECODED + 1] += given * (record.prompt_tokens + outputs / 2)


def prompt_terms(record: RequestRecord, piece: int) -> tuple[float, float, float, float, float]:
    """Of the request's prompt, all but the steps themselves."""
    cached, computed = record.cached_tokens, max(1, record.prompt_tokens - record.cached_tokens)
    chunks = math.ceil(computed / max(1, piece))
    attended = computed * (cached + computed / 2) if computed > 1 else 0.0
    return computed, chunks if computed > 1 else 0, 1.0, cached * chunks + computed * (chunks + 1) / 2, attended


def _shares(start_s: float, end_s: float, width_s: float) -> Iterable[tuple[int, float]]:
    """The windows that a stretch lies in, with how much of it lies there."""
    if end_s - start_s <= 1e-9:
        yield math.floor(start_s / width_s), 1.0
        return
    for number, inside_s in in_windows(start_s, end_s, width_s):
        yield number, inside_s / (end_s - start_s)


def computed_by_node(records: Iterable[RequestRecord]) -> Mapping[str, list[Computed]]:
    """Each request beside when it was computed; a node without any has none."""
    found: dict[str, list[Computed]] = defaultdict(list)
    for record in records:
        found[record.node].append((span_of(record), record))
    return found


def kv_tokens(records: Sequence[RequestRecord], windows: Iterable[StepWindow]) -> float | None:
    """About how many tokens a node's KV cache holds: what was held at windows' ends over the share that it was; None
    where next to nothing was."""
    spans = computed_by_node(records)
    held = share = 0.0
    for window in windows:
        if not window.kv_usage:
            continue
        at_s = window.start_s + window.width_s
        here = 0.0
        for span, record in spans[window.node]:
            if span.scheduled_s <= at_s < span.last_token_s:
                decoding = max(0.0, at_s - span.first_token_s) / max(1e-9, span.last_token_s - span.first_token_s)
                here += record.prompt_tokens + record.output_tokens * decoding
        if here:
            held, share = held + here, share + window.kv_usage
    return held / share if share > 0.01 else None
