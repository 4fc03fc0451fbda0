"""What a chart's values are, and how they are written. Pure. The pages' script writes each the same way (words.js)."""

from collections.abc import Callable
from dataclasses import dataclass

from web.frame.format import percent, seconds


@dataclass(frozen=True)
class Unit:
    """`name`: as words.js knows it. `words`: of a value, an en dash for None."""

    name: str
    words: Callable[[float | None], str]


def count_words(value: float | None) -> str:
    """Three significant digits, thousands apart: "0.25", "12.5", "1,234"."""
    if value is None:
        return "–"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def share_words(value: float | None) -> str:
    """In percent, with a decimal where that says more: "12 %", "0.4 %"."""
    return percent(value, 0 if value is None or value == 0 or abs(value) >= 0.1 else 1)


def rate_words(value: float | None) -> str:
    return "–" if value is None else f"{count_words(value)} /s"


SECONDS = Unit("seconds", seconds)
SHARE = Unit("share", share_words)
PER_SECOND = Unit("rate", rate_words)
COUNT = Unit("count", count_words)


def _with(suffix: str) -> Callable[[float | None], str]:
    return lambda value: "–" if value is None else f"{count_words(value)} {suffix}"


MEGAHERTZ, CELSIUS, WATTS = Unit("megahertz", _with("MHz")), Unit("celsius", _with("°C")), Unit("watts", _with("W"))
