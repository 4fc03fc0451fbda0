"""What requests spend outside of the engine's steps, from their waterfalls: what the twin adds to its own times. Pure.

vLLM takes requests in between two steps, and tells of them from then on: what one waits for the step in progress is
told as tokenizing. The twin makes it wait for that step by itself, so that the times of those requests alone are taken
which came while nobody was computed; of a pool that is next to never idle, of those that spent least.
"""

import math
from collections.abc import Iterator, Sequence

from controlplane.contract.bodies.workload import RequestRecord
from controlplane.contract.metrics import DECODE, E2E, PREFILL, QUEUE, TTFT
from tuner.twin.costs.telemetry_fit import SAME_STEP_S, computed_by_node
from tuner.twin.pool_run import Around

_FEWEST = 10


def around(records: Sequence[RequestRecord], *, taken_between_steps: bool) -> Around:
    """records: at least one, each with its queue, prefill and whole time."""
    seen = list(_undisturbed(records)) if taken_between_steps else list(records)
    if len(seen) < _FEWEST:
        seen = sorted(records, key=_first_s)[:_FEWEST]
    return Around([_first_s(one) for one in seen], [_whole_s(one) for one in seen])


def _undisturbed(records: Sequence[RequestRecord]) -> Iterator[RequestRecord]:
    """Those which no step kept waiting: none was in progress between their arrival and their first schedule."""
    for computed in computed_by_node(records).values():
        step_s = until_s = busy_until_s = -math.inf
        for span, record in sorted(computed, key=lambda one: one[0].scheduled_s):
            if span.scheduled_s > step_s + SAME_STEP_S:
                step_s, busy_until_s = span.scheduled_s, until_s
            if record.arrival.timestamp() >= busy_until_s:
                yield record
            until_s = max(until_s, span.last_token_s)


def _first_s(record: RequestRecord) -> float:
    parts = record.parts
    prefilled = parts[QUEUE.short] + parts[PREFILL.short]
    return max(0.0, parts.get(TTFT.short, prefilled) - prefilled)


def _whole_s(record: RequestRecord) -> float:
    parts = record.parts
    computed = parts[QUEUE.short] + parts[PREFILL.short] + parts.get(DECODE.short, 0.0)
    return max(_first_s(record), parts[E2E.short] - computed)
