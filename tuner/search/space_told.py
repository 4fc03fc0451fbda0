"""What a study searches, and what it leaves out and why, for people. Pure.

Guarantee: what is told goes by the same lists as the search's space; each value that a list names is either searched
or said to be left out.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from controlplane.contract.bodies.studies import KnobRange
from controlplane.contract.knobs import (
    KNOBS,
    MAX_NUM_BATCHED_TOKENS,
    MAX_NUM_SEQS,
    NUM_SPECULATIVE_TOKENS,
    QUANTIZATION,
    largest,
)
from tuner.search.space import Capabilities, Held, Space, candidates_of


def space_told(
    space: Space,
    wanted: Mapping[str, KnobRange],
    default: Mapping[str, Any],
    able: Capabilities,
    suggested: Sequence[Mapping[str, Any]] = (),
) -> dict[str, Any]:
    """`values`: knob to what is searched, in the order of effect; `left_out`: each {"knob", "values", "why"}, without
    values where it is about the whole knob, without a knob where it is about knobs together. `space`: as `build_space`
    made it of the others.
    """
    candidates = candidates_of(wanted, able.declared, suggested)
    unsearched = _knobs(space, candidates, able, asked=bool(wanted))
    return {
        "values": space.values,
        "left_out": [*_values(candidates, default, able), *unsearched, *_together(space, able)],
    }


def _values(
    listed: Mapping[str, Sequence[Any]], default: Mapping[str, Any], able: Capabilities
) -> list[dict[str, Any]]:
    """Those that the trial node cannot take."""
    found: dict[tuple[str, str], list[Any]] = {}
    for name, candidates in listed.items():
        for value in candidates:
            if not able.allows(name, value) and value != default.get(name):
                found.setdefault((name, _why(name, value, able)), []).append(value)
    return [{"knob": name, "values": values, "why": why} for (name, why), values in found.items()]


def _why(name: str, value: Any, able: Capabilities) -> str:
    if name == QUANTIZATION:
        return "the trial node's engine does not run it"
    if name in able.declared:
        return "the trial node does not declare it"
    most, least = (able.maximum or {}).get(name), (able.minimum or {}).get(name)
    if most is not None and largest(value) > most:
        return f"the trial node's engine takes at most {most}"
    return f"the trial node's engine takes at least {least}"


def _knobs(space: Space, listed: Collection[str], able: Capabilities, *, asked: bool) -> list[dict[str, Any]]:
    """Those that stay as the pool runs them. `asked`: the study says what it searches."""
    other = "the study was asked to search others" if asked else "a study searches it only where it is asked to"
    return [
        {"knob": name, "values": [], "why": "one value is left, what the pool runs" if name in listed else other}
        for name in (*KNOBS, *able.declared)
        if name not in space.values
    ]


def _largest_misfit(space: Space, held: Held) -> str:
    """Why the largest configurations do not fit, or empty where all do: none needs more than the last values do, but
    for the format."""
    largest_values = {name: values[-1] for name, values in space.values.items()}
    formats = space.values.get(QUANTIZATION, [space.fixed.get(QUANTIZATION)])
    whys = (held.misfit(space.complete({**largest_values, QUANTIZATION: name})) for name in formats)
    return next((why for why in whys if why), "")


def _together(space: Space, able: Capabilities) -> list[dict[str, Any]]:
    """Configurations that are known not to run, whatever their values are one by one."""
    found = []
    if MAX_NUM_BATCHED_TOKENS in space.values and NUM_SPECULATIVE_TOKENS in space.values:
        found.append("a step of fewer tokens than a request's drafts and one more cannot verify them")
    if able.tokens_at_least_seqs and {MAX_NUM_BATCHED_TOKENS, MAX_NUM_SEQS} & set(space.values):
        found.append("the engine does not start with fewer tokens a step than sequences")
    if able.held is not None and (why := _largest_misfit(space, able.held)):
        found.append(f"what the trial node's memory cannot hold; of the largest, {why}")
    return [{"knob": "", "values": [], "why": why} for why in found]
