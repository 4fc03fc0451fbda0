"""How one node or pool did by a symptom's expression, at each moment that it is judged. Pure.

Guarantee: `breach` and `calm` are never both true; where neither is, nothing can be said or the value rests between its
limit and where it is called over, and an alert stays as it is.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from controlplane.alerts.symptoms.expressions import Limited
from controlplane.alerts.windows.window_table import Values, WindowTables
from controlplane.contract.bodies.nodes import NodeView
from controlplane.telemetry import TelemetryReader, Where

Flags = NDArray[np.bool_]
Evidence = dict[str, Any]


@dataclass(frozen=True)
class Scene:
    """One pool as a symptom is judged in it.

    ends: seconds since the epoch, rising, `every_s` apart. where: the filter of its serving nodes; nodes: their names
    where not all count, else None; enrolled: the serving nodes that the fleet knows; open_nodes: those with an open
    alert of this rule, and since when (seconds since the epoch).
    """

    pool: str
    where: Where
    nodes: Sequence[str] | None
    enrolled: Mapping[str, NodeView]
    open_nodes: Mapping[str, float]
    ends: Sequence[float]
    every_s: float
    tables: WindowTables
    telemetry: TelemetryReader

    def columns(self, step_s: float, window_s: float) -> tuple[int, int]:
        """The steps [first, last) that the windows before all ends consist of."""
        return round((self.ends[0] - window_s) / step_s), round(self.ends[-1] / step_s)

    def sums(self, values: Values, step_s: float, window_s: float) -> Values:
        """Of float64[steps] over `columns`: the sum of the window before each end. What is absent adds nothing."""
        total = np.concatenate([[0.0], np.cumsum(np.nan_to_num(values))])
        width = round(window_s / step_s)
        at = width + round(self.every_s / step_s) * np.arange(len(self.ends))
        return np.asarray(total[at] - total[at - width], np.float64)


@dataclass(frozen=True)
class Course:
    """subject: its labels beside the pool. tell: the evidence at one of the ends, by its place."""

    subject: Mapping[str, str]
    value: Values
    breach: Flags
    calm: Flags
    tell: Callable[[int], Evidence] = field(repr=False)


def beyond(limited: Limited, values: Values, limit: float) -> Flags:
    """Where values lie on the wrong side of a limit."""
    return np.asarray(values > limit if limited.above is not None else values < limit)
