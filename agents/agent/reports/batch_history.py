"""What the engine ran while a request was there: running, waiting, KV usage and tokens of a step.

Guarantee: bounded memory, whatever the step rate: steps are kept in slots of `SLOT_S` for the newest `KEPT_S`; of a
request whose steps were not seen nothing is told, never zero. What an engine tells of a request's batch itself stays.
"""

from collections import deque
from dataclasses import dataclass

from controlplane.contract.metrics import BATCH_FIGURES, BATCH_PEAK
from controlplane.contract.reports.engine_event import EngineEvent, FinishedEvent, StepEvent, TracedEvent

SLOT_S = 0.1
KEPT_S = 600.0

Figures = tuple[float, float, float, float]
"""In the order of `BATCH_FIGURES`."""


@dataclass(slots=True)
class _Slot:
    number: int
    last: Figures
    most: Figures


class BatchHistory:
    """`see` every event of one engine in its order."""

    def __init__(self) -> None:
        self._slots: deque[_Slot] = deque(maxlen=int(KEPT_S / SLOT_S))

    def see(self, event: EngineEvent) -> None:
        """Note a step; add `batch` to a request that has ended."""
        if event["kind"] == "step":
            self._note(event)
        elif (event["kind"] == "finished" or event["kind"] == "traced") and "batch" not in event:
            found = self._during(event)
            if found:
                event["batch"] = found

    def _note(self, step: StepEvent) -> None:
        number = int(step["time"] / SLOT_S)
        figures = (
            float(step["running"]),
            float(step["waiting"]),
            float(step["kv_usage"]),
            float(step["batched_tokens"]),
        )
        if self._slots and self._slots[-1].number >= number:  # The same slot, or a clock that stepped back.
            slot = self._slots[-1]
            slot.last = figures
            a, b = slot.most, figures
            slot.most = (max(a[0], b[0]), max(a[1], b[1]), max(a[2], b[2]), max(a[3], b[3]))
        else:
            self._slots.append(_Slot(number, figures, figures))

    def _during(self, event: FinishedEvent | TracedEvent) -> dict[str, float]:
        arrival_s, end_s = event["arrival"], event["arrival"] + event["e2e"]
        ttft_s = event["ttft"]
        first_token_s = end_s if ttft_s is None else arrival_s + ttft_s
        first, at, last = (int(time_s / SLOT_S) for time_s in (arrival_s, first_token_s, end_s))
        slots = self._between(first, last)
        if not slots:
            return {}
        # The steps that had run when the first token came; an engine that samples rarely may have told none by then.
        then = next((slot for slot in reversed(slots) if slot.number <= at), slots[0])
        peaks = (max(column) for column in zip(*(slot.most for slot in slots), strict=True))
        return {
            **dict(zip(BATCH_FIGURES, then.last, strict=True)),
            **dict(zip((BATCH_PEAK + name for name in BATCH_FIGURES), peaks, strict=True)),
        }

    def _between(self, first: int, last: int) -> list[_Slot]:
        """The slots of a span, in order; the deque is walked from its new end, where requests end."""
        newest_first = []
        for slot in reversed(self._slots):
            if slot.number < first:
                break
            if slot.number <= last:
                newest_first.append(slot)
        return newest_first[::-1]
