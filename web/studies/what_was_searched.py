"""What a study's worker has told of its search space: each knob's values in their order, and what was left out and why.

Pure. Guarantee: whatever a worker has told, what is read is of these forms; an older study, which tells none of it, has
searched nothing that is known.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from controlplane.contract.knobs import KNOBS
from controlplane.contract.reports.declared_knobs import is_name


@dataclass(frozen=True)
class LeftOut:
    """`knob`: empty where it is about knobs together; `values`: none where it is about the whole knob."""

    knob: str
    values: list[Any]
    why: str


@dataclass(frozen=True)
class Searched:
    """`values`: knob to what was searched, in the order in which the study keeps them. `forecasts`: of how many
    configurations the search was told the twin's; `why_no_forecasts`: of none why."""

    values: dict[str, list[Any]]
    left_out: list[LeftOut]
    forecasts: int = 0
    why_no_forecasts: str = ""


def searched(summary: Mapping[str, Any]) -> Searched:
    """`summary`: a study's `workload_summary`."""
    space = summary.get("space")
    told = space if isinstance(space, Mapping) else {}
    values, left_out = told.get("values"), told.get("left_out")
    forecasts, why_none = told.get("forecasts"), told.get("why_no_forecasts")
    return Searched(
        values={name: of for name, of in values.items() if (name in KNOBS or is_name(name)) and isinstance(of, list)}
        if isinstance(values, Mapping)
        else {},
        left_out=[
            LeftOut(str(one.get("knob", "")), list(one["values"]) if isinstance(one.get("values"), list) else [], why)
            for one in (left_out if isinstance(left_out, list) else [])
            if isinstance(one, Mapping) and isinstance(why := one.get("why"), str)
        ],
        forecasts=forecasts if isinstance(forecasts, int) else 0,
        why_no_forecasts=why_none if isinstance(why_none, str) else "",
    )
