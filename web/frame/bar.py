"""The bar above every page: what its fields offer, and the links of its buttons."""

from dataclasses import dataclass
from datetime import datetime

from controlplane.client import Client
from controlplane.contract.bodies.nodes import FleetOutline
from web.frame.selection import Selection
from web.frame.time_range import FIRST, LONGEST, OFFERED

BACK = ("1h", "1d", "7d")
"""How much earlier the same span is offered to compare with."""


@dataclass(frozen=True)
class Bar:
    """`pool`: the one that pages about a single pool show. `nodes`: none of a pool of too many, whose names are typed.
    `zoomed_out`: the query of twice the span."""

    pool: str
    pools: list[str]
    nodes: list[str]
    revisions: list[int]
    ranges: dict[str, str]
    comparisons: dict[str, str]
    zoomed_out: str


def bar_of(client: Client, selection: Selection) -> Bar:
    """Asked of the API before the page's first byte: the fleet's outline, not its nodes."""
    return bar_for(client.fleet_outline(selection.pool), selection)


def bar_for(fleet: FleetOutline, selection: Selection) -> Bar:
    offered = {f"earlier:{back}": f"{back} earlier" for back in BACK}
    offered |= {f"revision:{number}": f"revision {number}" for number in fleet.revisions}
    if selection.compare is not None:
        offered[selection.compare.text] = selection.compare.words
    ranges = dict(OFFERED)
    if selection.range.start_word not in ranges or not selection.range.is_live:
        word = selection.range.start_word
        ranges = {word: selection.range.words} | {one: words for one, words in OFFERED.items() if one != word}
    return Bar(
        pool=fleet.pool,
        # A pool whose nodes are gone still has its past: it is shown as what it is, not as another one.
        pools=sorted({*fleet.pools, fleet.pool} - {""}),
        nodes=fleet.nodes,
        revisions=fleet.revisions,
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
