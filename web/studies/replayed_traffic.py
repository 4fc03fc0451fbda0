"""What traffic a study measured on, as its worker has told: what was captured, and the slices that were replayed. Pure.

Guarantee: whatever a worker has told, the rows are text; a figure that it has not told is a dash.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from controlplane.contract.planning.replayed_traffic_name import traffic_words
from web.drawing.units import count_words
from web.frame.format import percent, seconds

COLUMNS = {
    "captured": "Captured of the pool",
    "share": "One node's share",
    "slice": "Slice of the search",
    "fresh_slice": "Fresh slice of the pairs",
}


@dataclass(frozen=True)
class ReplayedTraffic:
    """`head`: what was told of it, by column; `rows`: a figure each, with a cell for each of `head`; `notes`: what was
    done to it, a sentence each."""

    head: list[str]
    rows: list[tuple[str, list[str]]]
    notes: list[str]


def replayed_traffic(summary: Mapping[str, Any], workload: str = "") -> ReplayedTraffic | None:
    """`summary`: a study's `workload_summary`; `workload`: as its spec names it. None where none of it is told."""
    parts = {name: _part(summary, name) for name in COLUMNS}
    said = traffic_words(workload)
    columns = COLUMNS | ({"captured": said[:1].upper() + said[1:]} if workload else {})
    told = {columns[name]: part for name, part in parts.items() if part}
    if not told:
        return None
    return ReplayedTraffic(
        head=list(told),
        rows=[(name, [read(part) for part in told.values()]) for name, read in FIGURES.items()],
        notes=_notes(summary, captured=not workload),
    )


def _part(summary: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """The fresh slice stands in what is told of it beside how it was taken."""
    found = summary.get(name)
    if name == "fresh_slice" and isinstance(found, Mapping):
        found = found.get("slice")
    return found if isinstance(found, Mapping) else {}


def _number(name: str, words: Callable[[float], str]) -> Callable[[Mapping[str, Any]], str]:
    def read(part: Mapping[str, Any]) -> str:
        value = part.get(name)
        return words(value) if isinstance(value, int | float) else "–"

    return read


def _lengths(name: str) -> Callable[[Mapping[str, Any]], str]:
    def read(part: Mapping[str, Any]) -> str:
        quantiles = part.get(name)
        told: Sequence[Any] = list(quantiles.values()) if isinstance(quantiles, Mapping) else []
        return " / ".join(count_words(one) if isinstance(one, int | float) else "–" for one in told) or "–"

    return read


FIGURES: dict[str, Callable[[Mapping[str, Any]], str]] = {
    "Requests": _number("requests", lambda value: f"{value:,.0f}"),
    "Span": _number("span_s", seconds),
    "Requests in a second": _number("rate_per_s", count_words),
    "Unevenness of arrivals (coefficient of variation)": _number("arrival_cv", lambda value: f"{value:.2f}"),
    "Prompt tokens, p50 / p95 / p99": _lengths("input_tokens"),
    "Answer tokens, p50 / p95 / p99": _lengths("output_tokens"),
    "Prompt tokens in repeated prefixes": _number("prefix_share", percent),
}


def _notes(summary: Mapping[str, Any], *, captured: bool) -> list[str]:
    said = []
    nodes, compressed, shortened = (summary.get(name) for name in ("nodes", "compressed", "shortened"))
    fresh, load = summary.get("fresh_slice"), summary.get("load")
    if isinstance(nodes, int):
        how = "It is the traffic of" if captured else "It is shared as if it came to"
        said.append(f"{how} {nodes} serving node{'s' if nodes != 1 else ''}; whole conversations each.")
    if isinstance(load, int | float) and load != 1:
        said.append(f"It was wanted at {load:g} times the rate at which it came.")
    if isinstance(compressed, int | float) and compressed > 1:
        said.append(f"The slice was replayed {compressed:g} times as fast as it arrived.")
    said += _of_prompts(summary.get("prompts"))
    ahead = summary.get("lead_in")
    if isinstance(ahead, int) and ahead:
        said.append(f"Ahead of the search's slice the {ahead} requests before it are sent, and count nowhere.")
    if isinstance(shortened, int) and shortened:
        said.append(f"{shortened} of its requests were shortened to what the engine takes.")
    if isinstance(fresh, Mapping) and isinstance(apart := fresh.get("apart"), bool):
        word = "no request" if apart else "requests, for there was too little traffic,"
        said.append(f"The fresh slice shares {word} with the one that the search replayed.")
    return said


def _of_prompts(told: Any) -> list[str]:
    """What the study's own prompts came to."""
    if not isinstance(told, Mapping):
        return []
    said = [f"Its text is that of prompt set {told.get('name')}, of {told.get('prompts')} prompts."]
    if isinstance(share := told.get("prefix_share"), int | float):
        said.append(
            f"Of {told.get('requests')} requests {told.get('cut')} had a prompt that was cut to their length, "
            f"{told.get('joined')} several that were joined; {percent(share)} of the prompts' tokens repeat how an "
            "earlier one began."
        )
    return said
