"""Knobs as JSON Schema, for the API's document: which names there are, and which values each takes."""

from typing import Any

from controlplane.contract.knobs import KNOBS, NUM_SPECULATIVE_TOKENS, Knob
from controlplane.contract.metrics import E2E, ITL, METRICS, TPOT, TTFT, MetricKind
from controlplane.contract.reports.declared_knobs import NAME_PATTERN, SCALAR_SCHEMA

HISTOGRAMS = [metric.short for metric in METRICS if metric.kind is MetricKind.HISTOGRAM]
REPLAYED = (TTFT.short, TPOT.short, ITL.short, E2E.short)
"""What a replay's client sees from outside; it sees no stages."""
GOODPUT = "goodput"
"""A study's objective that is no histogram: the time per request that keeps all limits."""
GOODPUT_TOKENS = "goodput_tokens"
"""A study's objective that is no histogram: the time per output token of requests that keep all limits."""
MAX_LOAD = "max_load"
"""A study's objective that is no histogram: the time per request at the largest load that keeps all limits."""
COST = "cost"
"""A study's objective that is no histogram: node seconds for 1,000 output tokens at the largest load within limits."""
OF_GOOD = (GOODPUT, GOODPUT_TOKENS)
"""Objectives that count what keeps all limits."""
OF_LOADS = (MAX_LOAD, COST)
"""Objectives for which a trial is replayed at several loads."""
RATES = (*OF_GOOD, MAX_LOAD)
"""Objectives that people read the other way round, as so many a second."""
OF_LIMITS = (*OF_GOOD, *OF_LOADS)
"""Objectives that the limits are a part of, so that they bind nothing besides."""
OBJECTIVES = (*REPLAYED, *OF_LIMITS)
ONE_OBJECTIVE: dict[str, Any] = {"enum": list(OBJECTIVES)}
ONE_HISTOGRAM: dict[str, Any] = {"enum": HISTOGRAMS}
ONE_HISTOGRAM_OR_NULL: dict[str, Any] = {"enum": [*HISTOGRAMS, None]}
SOME_HISTOGRAMS: dict[str, Any] = {
    "items": {"type": "string", "enum": HISTOGRAMS},
    "minItems": 1,
    "uniqueItems": True,
}
MOST_LEVELS = 20
"""Quantiles of one metric."""
LEVELS_BY_HISTOGRAM: dict[str, Any] = {
    "propertyNames": {"enum": HISTOGRAMS},
    "additionalProperties": {
        "type": "array",
        "items": {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1},
        "minItems": 1,
        "maxItems": MOST_LEVELS,
        "uniqueItems": True,
    },
}
NAMES: dict[str, Any] = {"propertyNames": {"pattern": NAME_PATTERN}}


def _value(knob: Knob) -> dict[str, Any]:
    described = {"description": f"{knob.help} Unit: {knob.unit}."}
    if knob.choices:
        return {"enum": [str(choice) for choice in knob.choices], **described}
    number = {"type": "integer", "minimum": knob.minimum, "maximum": knob.maximum}
    if knob.name != NUM_SPECULATIVE_TOKENS:
        return {**number, **described}
    pair = {"type": "array", "prefixItems": [{"type": "integer", "minimum": 1}, number], "minItems": 2, "maxItems": 2}
    return {"anyOf": [number, {"type": "array", "items": pair, "minItems": 1}], **described}


VALUES: dict[str, Any] = {
    "properties": {name: _value(knob) for name, knob in KNOBS.items()},
    "propertyNames": {"pattern": NAME_PATTERN},
    "additionalProperties": SCALAR_SCHEMA,
}
"""Beside `"type": "object"`."""
