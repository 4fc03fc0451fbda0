"""Where a technique is proved: addresses of the dashboard's study form and of the twin's forecast, filled in. Pure.

Guarantee: a range lies within the knob's bounds and within what every serving node says it can take; where nothing is
left to try there is no address.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from controlplane.contract.bodies.change import class_of, hardest
from controlplane.contract.bodies.nodes import NodeView
from controlplane.contract.bodies.studies import KnobRange
from controlplane.contract.knobs import KNOBS, ChangeClass

STUDY, FORECAST = "/studies/new", "/whatif"
WIDER = 4
"""A range reaches so many times above, or below, what the pool runs."""


@dataclass(frozen=True)
class KnobPlace:
    """A knob on a pool's nodes. change_class: the hardest of them; most: the lowest of their limits; None: not told."""

    name: str
    change_class: ChangeClass
    most: int | None

    @property
    def highest(self) -> int:
        """What the contract and all nodes let it be."""
        bound = KNOBS[self.name].maximum
        assert isinstance(bound, int)
        return bound if self.most is None else min(bound, self.most)

    def above(self, value: int) -> tuple[int, int] | None:
        """From what runs to so many times as much; None where there is no room."""
        top = min(max(WIDER * value, value + 1), self.highest)
        return (value, top) if top > value else None

    def below(self, value: int) -> tuple[int, int] | None:
        """The same downwards."""
        least = KNOBS[self.name].minimum
        bottom = max(value // WIDER, int(least or 0), 1)
        return (bottom, value) if bottom < value <= self.highest else None


def place_of(name: str, nodes: Sequence[NodeView]) -> KnobPlace:
    """Of the serving nodes."""
    classes = [class_of(name, node.backend, node.effective) for node in nodes]
    limits = [node.effective.limits[name] for node in nodes if node.effective and name in node.effective.limits]
    return KnobPlace(name, hardest(classes) or ChangeClass.LIVE, min(limits, default=None))


def study_address(pool: str, objective: str, space: Mapping[str, str], reason: str) -> str:
    """The form of a new study, as its own fields are written."""
    return f"{STUDY}?{urlencode({'pool': pool, 'objective': objective, **space, 'reason': reason})}"


def forecast_address(pool: str, **changed: str) -> str:
    """The what-if page, asked at once."""
    return f"{FORECAST}?{urlencode({'pool': pool, **changed, 'ask': '1'})}"


def range_text(of: KnobRange) -> str:
    """What a study searched of a knob, as the form writes it: values have semicolons between where one has commas."""
    if of.choices is None:
        return f"{of.minimum} to {of.maximum}" + (" log" if of.log else "")
    values = [one if isinstance(one, str) else _value_text(one) for one in of.choices]
    return ("; " if any("," in one or ":" in one for one in values) else ", ").join(values)


def _value_text(value: Any) -> str:
    """A schedule of drafts by batch size as "1:5, 4:3"; what else JSON has as it has it."""
    if isinstance(value, list | tuple):
        return ", ".join(f"{batch}:{length}" for batch, length in value)
    return json.dumps(value)


def range_words(bounds: tuple[int, int]) -> str:
    """As the form writes it; on a logarithmic scale where it may be."""
    low, high = bounds
    return f"{low} to {high}" + (" log" if low >= 1 else "")
