"""Fields of a form that are a contract's model's: how each is called, written and read, and what its hint says. Pure.

Guarantees: a field that is added to the model has its place in the form at once, with the contract's own words and
default; what `written` writes is read by `read` as the value that it was.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import UnionType
from typing import Any, Union, get_args, get_origin

from pydantic.fields import FieldInfo

from controlplane.contract.bodies.slo import Limit
from controlplane.contract.errors import BadRequest
from web.frame.time_range import UNITS_S

_LENGTH = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d|w)?")
_LIMIT = re.compile(r"(?P<metric>\w+)\s+(?P<q>p\d+(?:\.\d+)?|0?\.\d+)(?:\s*(?:<=|≤|<)\s*|\s+)(?P<limit>\d.*)")


class Shape(StrEnum):
    """How a field is written."""

    LENGTH = "length"  # A length of time, as in 5m.
    NUMBER = "number"
    WORD = "word"
    CHOICE = "choice"
    WORDS = "words"  # With commas between.
    QUANTILE = "quantile"  # As in p95.
    QUANTILES = "quantiles"  # With commas between, as in p95.
    LIMITS = "limits"  # A line each, as in ttft p95 600ms.


@dataclass(frozen=True)
class ModelField:
    """One field of a form. usual: what it says where nobody has said anything."""

    name: str
    title: str
    shape: Shape
    hint: str
    usual: str
    choices: Mapping[str, str]


def field_of_model(name: str, info: FieldInfo, title: str = "") -> ModelField:
    """title: where its name alone does not say it."""
    shape, choices = _shape(name, info)
    said = (info.description or "").replace("null: ", "empty: ").replace("`", "")
    usual = "" if info.is_required() else written(shape, info.get_default(call_default_factory=True))
    return ModelField(name, title or title_of(name), shape, said[:1].upper() + said[1:] + _how(shape), usual, choices)


def read(shape: Shape, text: str, name: str) -> Any:
    """As the model takes it. Raises `BadRequest` that names the field."""
    return _READ[shape](text, name)


def written(shape: Shape, value: Any) -> str:
    if value is None:
        return ""
    if shape is Shape.LENGTH:
        return length_words(value)
    if shape is Shape.LIMITS:
        return "\n".join(limit_words(one) for one in value)
    if shape is Shape.QUANTILE:
        return f"p{100 * value:.12g}"
    if shape is Shape.QUANTILES:
        return ", ".join(written(Shape.QUANTILE, q) for q in value)
    if shape is Shape.WORDS:
        return ", ".join(value)
    return value.value if isinstance(value, StrEnum) else f"{value:.12g}" if isinstance(value, float) else str(value)


def limit_words(limit: Limit) -> str:
    """Such as "ttft p95 600ms"."""
    return f"{limit.metric} {written(Shape.QUANTILE, limit.q)} {length_words(limit.limit_s)}"


def title_of(name: str) -> str:
    """`min_baseline_count` as "Min baseline count"; a length's unit is in its value."""
    return name.removesuffix("_s").replace("_", " ").capitalize()


def length_words(seconds: float) -> str:
    """The shortest way to write a length that is read as it was: 2419200 as "28d", 90 as "90s", 0.6 as "600ms"."""
    for unit in ("d", "h", "m"):
        if seconds and seconds % UNITS_S[unit] == 0:
            return f"{seconds / UNITS_S[unit]:.0f}{unit}"
    thousandths = 1e3 * seconds
    return f"{thousandths:.0f}ms" if 0 < seconds < 1 and thousandths == round(thousandths) else f"{seconds:.12g}s"


def _shape(name: str, info: FieldInfo) -> tuple[Shape, Mapping[str, str]]:
    kind = info.annotation
    if get_origin(kind) in (Union, UnionType):
        kind = next(one for one in get_args(kind) if one is not type(None))
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        return Shape.CHOICE, {"": "–", **{one.value: one.value.replace("_", " ") for one in kind}}
    of = get_args(kind)
    if of:
        return {Limit: Shape.LIMITS, float: Shape.QUANTILES}.get(of[0], Shape.WORDS), {}
    if kind is str:
        return Shape.WORD, {}
    if name.endswith("_q"):
        return Shape.QUANTILE, {}
    return (Shape.LENGTH if name.endswith("_s") else Shape.NUMBER), {}


def _how(shape: Shape) -> str:
    """What a reader must know of how it is written."""
    return {
        Shape.LENGTH: "; such as 90s, 5m, 6h or 28d.",
        Shape.WORDS: "; with commas between.",
        Shape.QUANTILE: "; such as p95.",
        Shape.QUANTILES: "; with commas between, such as p95, p99.",
        Shape.LIMITS: "; a line each, such as ttft p95 600ms.",
    }.get(shape, ".")


def _length(text: str, field: str) -> float:
    found = _LENGTH.fullmatch(text)
    if found is None:
        raise BadRequest(f"{field}: wants a length such as 600ms, 90s, 5m, 6h or 28d", field=field)
    unit = found[2] or "s"
    return float(found[1]) / 1e3 if unit == "ms" else float(found[1]) * UNITS_S[unit]


def _number(text: str, field: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise BadRequest(f"{field}: wants a number", field=field) from None


def _words(text: str, _: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def _quantiles(text: str, field: str) -> list[float]:
    return [_quantile(word, field) for word in _words(text, field)]


def _quantile(word: str, field: str) -> float:
    """p95 or 0.95."""
    share = word.removeprefix("p")
    try:
        found = float(share)
    except ValueError:
        raise BadRequest(f"{field}: {word[:40]!r} wants to be a quantile such as p95", field=field) from None
    return round(found / 100, 9) if share != word else found


def _limits(text: str, field: str) -> list[dict[str, Any]]:
    found = []
    for line in filter(None, (line.strip() for line in text.splitlines())):
        parts = _LIMIT.fullmatch(line)
        if parts is None:
            raise BadRequest(f"{field}: {line[:80]!r} wants metric, quantile, limit: ttft p95 600ms", field=field)
        q, limit_s = _quantile(parts["q"], field), _length(parts["limit"], field)
        found.append({"metric": parts["metric"], "q": q, "limit_s": limit_s})
    return found


_READ: dict[Shape, Callable[[str, str], Any]] = {
    Shape.LENGTH: _length,
    Shape.NUMBER: _number,
    Shape.WORD: lambda text, _: text,
    Shape.CHOICE: lambda text, _: text,
    Shape.WORDS: _words,
    Shape.QUANTILE: _quantile,
    Shape.QUANTILES: _quantiles,
    Shape.LIMITS: _limits,
}
