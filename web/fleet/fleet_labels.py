"""Labels on the fleet's page: which nodes a selector lets in, what cells can be grouped by, what a row shows.

Pure, and cheap for thousands of nodes: a selector is held once against each set of labels, not against each node.
Guarantee: `selected` lets in what `Selector.matches` does.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from controlplane.contract.bodies.nodes import FleetColumns
from controlplane.contract.changes.label_selector import Operator, Requirement, Selector, parsed
from controlplane.contract.errors import BadRequest
from controlplane.contract.reports.node_labels import PROCESSOR, REGION, SAID_BY_NODE, problem_of
from web.frame.selection import Selection

BY_LABEL = "label:"
"""Before a label's name: what cells are grouped by."""
MOST_OFFERED = 8
MOST_GROUPS = 60
SHOWN = 3
"""Labels of a row that are written out."""


def selector_of(selection: Selection) -> tuple[Selector, str]:
    """What the address says, and what is wrong with it: of a wrong one nothing is known, and no node shown."""
    try:
        return parsed(selection.own.get("selector", "")), ""
    except ValueError as error:
        return Selector(), str(error)


def selected(told: FleetColumns, places: Iterable[int], selector: Selector) -> list[int]:
    """Of `places` those whose nodes match."""
    found = list(places)
    for wanted in selector.requirements:
        if wanted.name in SAID_BY_NODE:
            column: Sequence[str] = getattr(told, wanted.name)
            found = [at for at in found if wanted.matches({wanted.name: column[at]})]
        else:
            fits = [wanted.matches(labels) for labels in told.label_sets]
            found = [at for at in found if fits[told.labels[at]]]
    return found


def label_of(group: str) -> str:
    """The label's name in what cells are grouped by; empty where it is none. Raises `BadRequest` for a wrong name."""
    if not group.startswith(BY_LABEL):
        return ""
    name = group.removeprefix(BY_LABEL)
    problem = problem_of(name, "x")
    if problem is not None:
        raise BadRequest(f"by: {problem}", field="by")
    return name


def offered_labels(told: FleetColumns, chosen: str) -> list[str]:
    """Labels that cells can be grouped by: those that most nodes have, and the chosen one. The region stands among the
    groups anyway."""
    sizes = Counter(told.labels)
    counts: Counter[str] = Counter()
    for place, size in sizes.items():
        counts.update(dict.fromkeys(told.label_sets[place], size))
    counts.pop(REGION, None)
    most = sorted(counts, key=lambda name: (-counts[name], name))[:MOST_OFFERED]
    return sorted({*most, *([chosen] if chosen else [])})


def values_of(told: FleetColumns, name: str) -> list[str]:
    """Of each node; empty where it has no such label. Of more values than can be looked at, those that fewest nodes
    have are told together."""
    column = [told.label_sets[place].get(name, "") for place in told.labels]
    counts = Counter(column)
    if len(counts) <= MOST_GROUPS:
        return column
    most = sorted(counts, key=lambda value: (-counts[value], value))[: MOST_GROUPS - 1]
    kept, rest = set(most), f"{len(counts) - len(most):,} others"
    return [value if value in kept else rest for value in column]


def row_labels(labels: dict[str, str], selection: Selection) -> dict[str, Any]:
    """A few as links that choose by them beside what is chosen already, and the others in words."""
    names = sorted(labels, key=lambda name: (name == PROCESSOR, name))
    chosen, _ = selector_of(selection)
    return {
        "labels": [(f"{name}={labels[name]}", _with(chosen, name, labels[name], selection)) for name in names[:SHOWN]],
        "more_labels": [f"{name}={labels[name]}" for name in names[SHOWN:]],
    }


def _with(chosen: Selector, name: str, value: str, selection: Selection) -> str:
    others = tuple(one for one in chosen.requirements if one.name != name)
    return selection.query(selector=str(Selector((*others, Requirement(name, Operator.IN, (value,))))), page=None)
