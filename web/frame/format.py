"""How values are written for a reader: pure functions, registered as Jinja2 filters."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime, tzinfo
from typing import Any

from controlplane.contract.duration_text import duration_text
from controlplane.contract.histogram import error_text
from controlplane.contract.knobs import KNOBS
from controlplane.contract.on_call.metric_text import metric_name
from controlplane.contract.planning.carried_text import carried_text, limits_text
from controlplane.contract.planning.cost_text import cost_text, saving_text
from controlplane.contract.planning.draft_acceptance import acceptance_text
from controlplane.contract.planning.objective_text import also_text, called, result_in_short, value_text
from controlplane.contract.planning.quality_text import evaluation_text, quality_text
from controlplane.contract.share_text import share_text
from web.frame.states import kind_of

_ZONE: ContextVar[tzinfo] = ContextVar("the zone that times are written in", default=UTC)


@contextmanager
def shown_in(zone: tzinfo) -> Iterator[None]:
    """Within it, times of day are the zone's."""
    before = _ZONE.set(zone)
    try:
        yield
    finally:
        _ZONE.reset(before)


def zone_shown() -> tzinfo:
    """That of the page or part that is being written."""
    return _ZONE.get()


def seconds(value: float | None) -> str:
    """A duration with three significant digits and a fitting unit; an en dash for absent."""
    return "–" if value is None else duration_text(value)


def label_words(name: str) -> str:
    """A label or figure as words: "prompt bucket", "KV usage"."""
    return name.replace("_", " ").replace("kv ", "KV ")


def percent(value: float | None, digits: int = 0) -> str:
    return "–" if value is None else share_text(value, digits)


def clock(value: datetime | None) -> str:
    """Time of day, in the zone that the page is shown in."""
    return "–" if value is None else value.astimezone(zone_shown()).strftime("%H:%M:%S")


def moment(value: datetime | None) -> str:
    return "–" if value is None else value.astimezone(zone_shown()).strftime("%Y-%m-%d %H:%M:%S %Z")


def ago(value: datetime | None, now: datetime | None = None) -> str:
    """Elapsed time in its largest unit: "12 s", "5 min", "3 h", "2 d"."""
    if value is None:
        return "never"
    passed = max(0.0, ((now or datetime.now(UTC)) - value).total_seconds())
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if passed >= size:
            return f"{passed / size:.0f} {unit} ago"
    return f"{passed:.0f} s ago"


def knob(value: Any) -> str:
    """A knob's value: a schedule is shown as "≤4: 2, ≤16: 1". Whatever else a node may report is shown as it is."""
    if isinstance(value, list | tuple) and all(isinstance(pair, list | tuple) and len(pair) == 2 for pair in value):
        return ", ".join(f"≤{size}: {tokens}" for size, tokens in value)
    return str(value)


def is_word_knob(name: str) -> bool:
    """Whether a knob's values are words: they stand to the left in a table, numbers to the right."""
    return name in KNOBS and bool(KNOBS[name].choices)


def sentence(text: str) -> str:
    """An error's message as a sentence of its own: "no alert 99" is "There is no alert 99."."""
    whole = f"There is {text}" if text.startswith("no ") else text
    return whole if whole.endswith((".", "!", "?")) else f"{whole}."


def pretty(value: Any) -> str:
    """JSON for a reader, durations and floats shortened to four digits."""

    def short(item: Any) -> Any:
        if isinstance(item, float):
            return float(f"{item:.4g}")
        if isinstance(item, dict):
            return {key: short(inner) for key, inner in item.items()}
        if isinstance(item, list | tuple):
            return [short(inner) for inner in item]
        return item

    return json.dumps(short(value), indent=2, default=str, ensure_ascii=False)


FILTERS = {
    "coarse": error_text,  # "± 67 %: from /metrics buckets"; empty for exact timings.
    "seconds": seconds,
    "carried": carried_text,
    "cost": cost_text,
    "saving": saving_text,
    "objective": value_text,
    "objective_name": called,
    "also": also_text,
    "quality": quality_text,
    "acceptance": acceptance_text,
    "result_in_short": result_in_short,
    "evaluation": evaluation_text,
    "limits": limits_text,
    "metric_name": metric_name,
    "label_words": label_words,
    "percent": percent,
    "clock": clock,
    "moment": moment,
    "ago": ago,
    "knob": knob,
    "pretty": pretty,
    "is_word_knob": is_word_knob,
    "sentence": sentence,
    "kind": kind_of,
}
