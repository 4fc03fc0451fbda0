"""One cell a node, for thousands of them: grouped, coloured by a value, marked by how the node is.

Pure. Guarantee: every node has one cell, in its group's order; a node without a value is told apart from any value.
"""

import json
import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby

from web.drawing.heat_map import LEVELS
from web.frame.format import seconds
from web.frame.states import Kind, kind_of


@dataclass(frozen=True)
class Node:
    """`value`: None where it has told none. `state`: the contract's word for how it is."""

    name: str
    group: str
    value: float | None
    state: str


@dataclass(frozen=True)
class Step:
    """One colour of the scale: values from `least` on, in words."""

    least: float
    words: str


@dataclass(frozen=True)
class NodeCells:
    """All that the template writes. `states`: how many nodes each kind that stands out has; `data`: for the script."""

    scale: list[Step]
    states: list[tuple[Kind, int]]
    unvalued: int
    sentence: str
    data: str
    count: int


def node_cells(nodes: Sequence[Node], value: str = "p99", words: Callable[[float], str] = seconds) -> NodeCells:
    """Groups in the order of their names, the highest value of each first. `value` names what is told, in `words`."""
    ordered = sorted(nodes, key=lambda node: (node.group, math.inf if node.value is None else -node.value, node.name))
    known = [node.value for node in nodes if node.value is not None]
    scale = scale_of(known, words)
    kinds = [kind_of(node.state) or Kind.UNKNOWN for node in ordered]
    counted = Counter(kinds)
    shown = [(kind, counted[kind]) for kind in (Kind.BAD, Kind.WARN, Kind.STALE, Kind.UNKNOWN) if counted[kind]]
    groups = [(name, len(list(of))) for name, of in groupby(ordered, key=lambda node: node.group)]
    states = sorted({node.state for node in nodes})
    least = [step.least for step in scale]
    told = {
        "value": value,
        "state_words": [state.replace("_", " ") for state in states],
        "groups": groups,
        "names": [node.name for node in ordered],
        "levels": [-1 if node.value is None else max(0, bisect_right(least, node.value) - 1) for node in ordered],
        "states": [states.index(node.state) for node in ordered],
        "kinds": "".join(kind[0] for kind in kinds),
        "words": ["" if node.value is None else words(node.value) for node in ordered],
    }
    return NodeCells(
        scale=scale,
        states=shown,
        unvalued=len(nodes) - len(known),
        sentence=_sentence(nodes, groups, shown, value, words),
        data=json.dumps(told, separators=(",", ":"), ensure_ascii=False),
        count=len(nodes),
    )


def scale_of(values: Sequence[float], words: Callable[[float], str] = seconds) -> list[Step]:
    """Colours from the lowest to the highest value in even ratios, or in even steps where one is zero or below."""
    if not values:
        return []
    low, high = min(values), max(values)
    if low == high:
        return [Step(low, words(low))]
    if low > 0:
        least = [low * (high / low) ** (place / LEVELS) for place in range(LEVELS)]
    else:
        least = [low + (high - low) * place / LEVELS for place in range(LEVELS)]
    ends = [*least[1:], high]
    return [Step(begin, f"{words(begin)} to {words(end)}") for begin, end in zip(least, ends, strict=True)]


def _sentence(
    nodes: Sequence[Node],
    groups: Sequence[tuple[str, int]],
    shown: Sequence[tuple[Kind, int]],
    value: str,
    words: Callable[[float], str],
) -> str:
    """Such as "10,000 nodes in 3 groups: 12 bad, 3 stale; the highest p99 is 1.84 s, on gpu-17." """
    if not nodes:
        return "No nodes."
    plural = "node" if len(nodes) == 1 else "nodes"
    said = f"{len(nodes):,} {plural}" + (f" in {len(groups)} groups" if len(groups) > 1 else "")
    states = ", ".join(f"{count:,} {kind.value}" for kind, count in shown) or "all good"
    known = [node for node in nodes if node.value is not None]
    if not known:
        return f"{said}: {states}; none has told its {value}."
    highest = max(known, key=lambda node: node.value or 0.0)
    return f"{said}: {states}; the highest {value} is {words(highest.value or 0.0)}, on {highest.name}."
