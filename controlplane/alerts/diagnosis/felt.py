"""What users feel of a stage that got slower: its sums at p99, before and during, in words. Reads only."""

from collections.abc import Mapping
from typing import Any

from controlplane.alerts.words import percentile
from controlplane.contract.duration_text import duration_text
from controlplane.contract.metrics import DECODE, E2E, ITL, PREFILL, QUEUE, SEND, TOKENIZE, TPOT, TTFT, UNACCOUNTED
from controlplane.contract.on_call.metric_text import metric_name
from controlplane.evidence.sketch import Sketch
from controlplane.telemetry import Question, Span, TelemetryReader, Where

Q = 0.99
SUMS: Mapping[str, tuple[str, ...]] = {
    **{part.short: (TTFT.short, E2E.short) for part in (TOKENIZE, QUEUE, PREFILL)},
    **{part.short: (E2E.short,) for part in (ITL, TPOT, DECODE, SEND, UNACCOUNTED)},
}
"""What a stage is part of, and so felt in."""


def felt(
    telemetry: TelemetryReader,
    where: Where,
    metric: str,
    before: Span,
    during: Span,
    effect: Mapping[str, Any] | None = None,
) -> str:
    """To stand behind "PREFILL p99 rose from .. to ..": by what factor, and the sums of it. Empty for a sum itself.

    effect: `factor`, and its interval from `low` to `high`, of all requests of the stage, where a course tells.
    """
    told = []
    for name in SUMS.get(metric, ()):
        then, now = (_total(telemetry, Question(name, span, where=where)) for span in (before, during))
        if then.count and now.count:
            told.append(f"{metric_name(name)} {percentile(Q)} {_moved(then.quantile(Q), now.quantile(Q))}")
    how = ""
    if effect is not None:
        how = f" (all of it x{effect['factor']:.3g}, {effect['low']:.3g} to {effect['high']:.3g})"
    return how + (f"; with it {', '.join(told)}" if told else "")


def _moved(then_s: float, now_s: float) -> str:
    return f"{'from' if now_s > then_s else 'did not rise, from'} {duration_text(then_s)} to {duration_text(now_s)}"


def _total(telemetry: TelemetryReader, question: Question) -> Sketch:
    total = Sketch()
    for series in telemetry.histograms(question):
        total.merge(series.total)
    return total
