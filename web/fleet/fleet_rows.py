"""Which nodes a table of the fleet shows, in which order: pure, and cheap enough for thousands of nodes at each look.

Guarantee: a node without a value comes last whichever way its column is sorted; equal ones stand by name.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from controlplane.contract.bodies.nodes import FleetColumns, NodeState
from controlplane.contract.bodies.telemetry import NodeFigures
from controlplane.contract.errors import BadRequest
from controlplane.contract.reports.node_labels import REGION
from web.fleet.fleet_labels import selected, selector_of
from web.frame.format import ago
from web.frame.own_parameters import one_of
from web.frame.selection import Selection, is_number

A_PAGE = 50
EPOCH = datetime.fromtimestamp(0, UTC)
DIFFERS, FAILED, TRIAL = "differs", "config_failed", "trial"
STATES = (*(state.value for state in NodeState), DIFFERS, FAILED, TRIAL)
"""What nodes can be filtered by: how they are, and what is the matter with their configuration."""
WORST_FIRST = {NodeState.OFFLINE: 0, NodeState.UNHEALTHY: 1, NodeState.DEGRADED: 2, NodeState.HEALTHY: 3}
MEASURED = ("ttft_p99", "kv_usage", "running", "waiting", "host_pressure")


@dataclass(frozen=True)
class Fleet:
    """Columns of equal length, a place for each node by name, rising. `measured`: None where nothing was told.
    `region`: as its telemetry says, else its label; empty where neither does.
    """

    told: FleetColumns
    measured: dict[str, list[float | None]]
    region: list[str]

    def __len__(self) -> int:
        return len(self.told.node)


@dataclass(frozen=True)
class Wanted:
    """What the address asks of the table. `page` counts from 1."""

    state: str = ""
    search: str = ""
    sort: str = "state"
    descending: bool = False
    page: int = 1


COLUMNS: dict[str, Callable[[Fleet], Sequence[Any]]] = {
    "node": lambda fleet: fleet.told.node,
    "pool": lambda fleet: fleet.told.pool,
    "state": lambda fleet: [WORST_FIRST[state] for state in fleet.told.state],
    "revision": lambda fleet: fleet.told.revision,
    "p99": lambda fleet: fleet.measured["ttft_p99"],
    "kv": lambda fleet: fleet.measured["kv_usage"],
    "running": lambda fleet: fleet.measured["running"],
    "waiting": lambda fleet: fleet.measured["waiting"],
    "pressure": lambda fleet: fleet.measured["host_pressure"],
    "drift": lambda fleet: fleet.told.drift_since,
    "unaccounted": lambda fleet: fleet.told.unaccounted_share,
    "seen": lambda fleet: fleet.told.last_seen,
}
"""What the table can be sorted by, as the address says it."""


def fleet_of(told: FleetColumns, figures: NodeFigures) -> Fleet:
    """What nodes are beside what they measured; nodes that are gone are not in it."""
    place = {node: at for at, node in enumerate(figures.node)}
    places = [place.get(node) for node in told.node]
    measured = {
        name: [None if at is None else column[at] for at in places]
        for name, column in ((name, getattr(figures, name)) for name in MEASURED)
    }
    labelled = [told.label_sets[place].get(REGION, "") for place in told.labels]
    region = [
        labelled[at] if place is None else figures.region[place] or labelled[at] for at, place in enumerate(places)
    ]
    return Fleet(told, measured, region)


def wanted_of(selection: Selection) -> Wanted:
    """Raises `BadRequest` that names the parameter."""
    own = selection.own
    state, sort, page = one_of(selection, "state", STATES, ""), own.get("sort", "state"), own.get("page", "1")
    if sort.removeprefix("-") not in COLUMNS:
        raise BadRequest(f"sort: {sort[:40]!r} is none of {', '.join(COLUMNS)}, or one with - before it", field="sort")
    if not is_number(page) or int(page) < 1:
        raise BadRequest("page: wants a number from 1 on", field="page")
    return Wanted(state, own.get("q", ""), sort.removeprefix("-"), sort.startswith("-"), int(page))


def filtered(fleet: Fleet, selection: Selection, search: str = "") -> list[int]:
    """Places of the nodes that the bar's filters, the selector and the search let in; none by a wrong selector."""
    told = fleet.told
    selector, problem = selector_of(selection)
    found = [] if problem else selected(told, range(len(fleet)), selector)
    filters = selection.filters
    for name, column in (("pool", told.pool), ("node", told.node), ("model", told.model)):
        if name in filters:
            found = [at for at in found if column[at] == filters[name]]
    if "revision" in filters:
        number = int(filters["revision"])
        found = [at for at in found if number in (told.revision[at], told.desired_revision[at])]
    if search:
        text = search.casefold()
        found = [at for at in found if text in told.node[at].casefold() or text in told.pool[at].casefold()]
    return found


def counted(fleet: Fleet, places: Sequence[int]) -> Counter[str]:
    """How many of them each word of `STATES` lets in."""
    told = fleet.told
    found: Counter[str] = Counter(told.state[at].value for at in places)
    found[DIFFERS] = sum(told.drift_since[at] is not None for at in places)
    found[FAILED] = sum(told.config_failed[at] for at in places)
    found[TRIAL] = sum(told.role[at] == TRIAL for at in places)
    return found


def in_state(fleet: Fleet, places: Sequence[int], state: str) -> list[int]:
    """Of `places` those that a word of `STATES` lets in; all of them where it is empty."""
    told = fleet.told
    if not state:
        return list(places)
    if state == DIFFERS:
        return [at for at in places if told.drift_since[at] is not None]
    if state == FAILED:
        return [at for at in places if told.config_failed[at]]
    if state == TRIAL:
        return [at for at in places if told.role[at] == TRIAL]
    return [at for at in places if told.state[at] == state]


def ordered(fleet: Fleet, places: Sequence[int], sort: str, descending: bool) -> list[int]:
    """By a column of `COLUMNS`."""
    column = COLUMNS[sort](fleet)
    known = sorted((at for at in places if column[at] is not None), key=lambda at: column[at], reverse=descending)
    return known + [at for at in places if column[at] is None]


def length_words(length_s: float) -> str:
    """A length of time in its largest unit, such as "7 min"; "none" for 0."""
    if not length_s:
        return "none"
    return ago(EPOCH, EPOCH + timedelta(seconds=length_s)).removesuffix(" ago")


def since_s(moment: datetime | None, now: datetime) -> float:
    """Whole minutes since then in seconds, so that it does not change at each look; 0 for never."""
    return 0.0 if moment is None else max(60.0, (now - moment).total_seconds() // 60 * 60)
