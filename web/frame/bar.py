"""The bar above every page: what its fields offer, and the links of its buttons."""

from dataclasses import dataclass
from datetime import datetime

from controlplane.client import Client
from controlplane.contract.bodies.nodes import FleetColumns, NodeRole
from web.frame.selection import Selection
from web.frame.time_range import FIRST, LONGEST, OFFERED

MOST_OFFERED = 300
"""Names of nodes that a field offers; of a larger fleet it takes typed ones alone."""
BACK = ("1h", "1d", "7d")
"""How much earlier the same span is offered to compare with."""


@dataclass(frozen=True)
class Bar:
    """`pool`: the one that pages about a single pool show. `zoomed_out`: the query of twice the span."""

    pool: str
    pools: list[str]
    nodes: list[str]
    revisions: list[int]
    ranges: dict[str, str]
    comparisons: dict[str, str]
    zoomed_out: str


def bar_of(client: Client, selection: Selection) -> Bar:
    """Asked of the API: the fleet's nodes give pools and revisions."""
    return bar_for(client.fleet(), selection)


def bar_for(fleet: FleetColumns, selection: Selection) -> Bar:
    serving = [place for place, role in enumerate(fleet.role) if role is NodeRole.SERVING]
    pools = sorted({fleet.pool[place] for place in serving})
    # A pool whose nodes are gone still has its past: it is shown as what it is, not as another one.
    asked = selection.pool or next(iter(pools), "")
    nodes = [node for node, pool in zip(fleet.node, fleet.pool, strict=True) if not asked or pool == asked]
    told = {of[place] for of in (fleet.revision, fleet.desired_revision) for place in serving}
    revisions = sorted(number for number in told if number)
    offered = {f"earlier:{back}": f"{back} earlier" for back in BACK}
    offered |= {f"revision:{number}": f"revision {number}" for number in revisions}
    if selection.compare is not None:
        offered[selection.compare.text] = selection.compare.words
    ranges = dict(OFFERED)
    if selection.range.start_word not in ranges or not selection.range.is_live:
        word = selection.range.start_word
        ranges = {word: selection.range.words} | {one: words for one, words in OFFERED.items() if one != word}
    return Bar(
        pool=asked,
        pools=sorted({*pools, asked} - {""}),
        nodes=nodes if len(nodes) <= MOST_OFFERED else [],
        revisions=revisions,
        ranges=ranges,
        comparisons=offered,
        zoomed_out=_zoomed_out(selection),
    )


def _zoomed_out(selection: Selection) -> str:
    """The address' query with twice the span around the same middle; where that lies beyond now, it ends now."""
    start, end = selection.range.at(selection.now)
    length = min(2 * (end - start), LONGEST)
    later = max(end, min(start + (end - start + length) / 2, selection.now))
    earlier = max(later - length, FIRST)
    return selection.query(**{"from": _word(earlier), "to": _word(later)})


def _word(moment: datetime) -> str:
    return moment.isoformat(timespec="seconds").replace("+00:00", "Z")
