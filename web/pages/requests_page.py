"""Requests: the log of 48 hours by facets, all on one time scale; and one request with its peers and what is usual."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from urllib.parse import quote

from controlplane.client import Client
from controlplane.contract.bodies.request_log import RequestDetail, RequestFacets
from controlplane.contract.bodies.workload import RequestRecord
from controlplane.contract.errors import BadRequest
from controlplane.contract.metrics import E2E, REQUEST_PARTS, TPOT, TTFT
from web.drawing.waterfall import Request, Waterfalls, waterfalls
from web.frame.format import seconds
from web.frame.own_parameters import one_of, seconds_of
from web.frame.page import Context, Page, Part
from web.frame.selection import FILTERS, Selection

MORE_FILTERS = ("cache_class", "finish_reason", "region")
"""Labels of requests that the bar has no field for."""
ORDERS = {"newest": "newest first", "slowest": "slowest first"}
METRICS = (E2E.short, TTFT.short, TPOT.short, *(part.short for part in REQUEST_PARTS))
A_PAGE = 40
MOST_VALUES = 8
"""Values of a facet that are shown before the rest is folded."""
MOST_PEERS = 20
FEWEST_TOKENS = 8
"""Two tokens of one step came at any rate one likes."""
NOTABLE = 2.0
"""A part is told of that took so many times what is usual."""


@dataclass(frozen=True)
class Choice:
    """A value of a facet. `query`: the address' query with it chosen, or given up where it is."""

    value: str
    requests: int
    chosen: bool
    query: str


@dataclass(frozen=True)
class FacetChoices:
    label: str
    first: list[Choice]
    rest: list[Choice]
    beyond: int


@dataclass(frozen=True)
class Row:
    """A request of the list, its place in the common drawing by its number. `address`: its own page."""

    record: RequestRecord
    address: str
    tokens_per_s: float | None


def own(selection: Selection) -> tuple[dict[str, Any], str, str]:
    """The filters, the order, and where the page begins. Raises `BadRequest` that names the parameter."""
    cursor = selection.own.get("cursor", "")
    if cursor and not cursor.isdecimal():
        raise BadRequest("cursor: wants the number that the page before gave", field="cursor")
    return filters_of(selection), one_of(selection, "order", ORDERS, "newest"), cursor


def listed(client: Client, selection: Selection) -> Context:
    """A page of the log, in the order asked for."""
    asked, order, cursor = own(selection)
    page = client.requests(
        **asked, order=order, limit=A_PAGE, cursor=cursor or None, request_id=selection.own.get("q"), **selection.span
    )
    rows = [Row(record, address_of(record, selection), tokens_per_s(record)) for record in page.items]
    return {
        "rows": rows,
        "chart": drawn(page.items),
        "metric": asked["metric"],
        "order": order,
        "others": {words: selection.query(order=name, cursor=None) for name, words in ORDERS.items() if name != order},
        "newer": selection.query(cursor=None) if cursor else "",
        "older": selection.query(cursor=page.next) if page.next else "",
        "searched": selection.own.get("q", ""),
        "limits": limits_of(selection),
        "unfiltered": selection.query(
            **dict.fromkeys((*FILTERS, *MORE_FILTERS, "metric", "min", "max", "q", "cursor"))
        ),
    }


def facets(client: Client, selection: Selection) -> Context:
    """By what requests can be told apart, with counts."""
    answer = client.request_facets(**filters_of(selection), **selection.span)
    return {"answer": answer, "facets": choices_of(answer, selection)}


def one(client: Client, selection: Selection) -> Context:
    """One request: its waterfall over the usual one, its batch, and who shared the engine with it."""
    detail = detail_of(client, selection)
    usual = {part: typical.median_s for part, typical in detail.typical.parts.items()}
    record = detail.request
    peers = detail.peers[:MOST_PEERS]
    chart = waterfalls([Request(record.request_id, record.parts)], usual or None)
    return {
        "detail": detail,
        "request": record,
        "chart": chart,
        "notable": notable(record.parts, usual),
        "batch": batch_of(record),
        "tokens_per_s": tokens_per_s(record),
        "peers": peers,
        "peers_chart": waterfalls([Request(peer.request_id, peer.parts) for peer in peers]) if peers else None,
        "peers_left_out": detail.peers_found - len(peers),
        "around": around(record, selection),
    }


def whole(client: Client, selection: Selection) -> Context:
    """Raises `NotFound` where neither the log nor the exemplars have the request."""
    return {"request_id": detail_of(client, selection).request.request_id}


def detail_of(client: Client, selection: Selection) -> RequestDetail:
    own = selection.own
    params: dict[str, Any] = {"node": own.get("on"), "arrival": own.get("arrival")}
    return client.request(own.get("request_id", ""), **params)


def filters_of(selection: Selection) -> dict[str, Any]:
    """The page's filters as the API takes them; with a range of seconds, those are meant that completed in the span."""
    metric = one_of(selection, "metric", METRICS, E2E.short)
    low, high = seconds_of(selection, "min"), seconds_of(selection, "max")
    found: dict[str, Any] = {**selection.labels, "metric": metric, "low": low, "high": high}
    found |= {name: selection.own[name] for name in MORE_FILTERS if name in selection.own}
    if low is not None or high is not None:
        found["timed_by"] = "completion"
    return found


def limits_of(selection: Selection) -> str:
    """The range of seconds in words: "ttft at least 1.20 s"; nothing without one."""
    low, high = seconds_of(selection, "min"), seconds_of(selection, "max")
    metric = selection.own.get("metric", E2E.short)
    told = [f"at least {seconds(low)}"] if low is not None else []
    told += [f"at most {seconds(high)}"] if high is not None else []
    return f"{metric} {' and '.join(told)}" if told else ""


def choices_of(answer: RequestFacets, selection: Selection) -> list[FacetChoices]:
    """The facets as links. One of a single value tells nothing apart, unless it was chosen."""
    chosen = {**selection.filters, **{name: selection.own[name] for name in MORE_FILTERS if name in selection.own}}
    found = []
    for facet in answer.facets:
        now = chosen.get(facet.label, "")
        if len(facet.values) < 2 and not now:
            continue
        values = [
            Choice(
                value.value,
                value.requests,
                value.value == now,
                selection.query(**{facet.label: None if value.value == now else value.value, "cursor": None}),
            )
            for value in facet.values
            if value.value
        ]
        found.append(FacetChoices(facet.label, values[:MOST_VALUES], values[MOST_VALUES:], facet.others))
    return found


def drawn(records: list[RequestRecord]) -> Waterfalls:
    """All on one scale: the same length is the same time."""
    return waterfalls([Request(record.request_id, record.parts) for record in records])


def tokens_per_s(record: RequestRecord) -> float | None:
    """Output tokens a second once the first had come; None where that was never measured, or of too few to say."""
    tpot = record.parts.get(TPOT.short)
    return 1 / tpot if tpot and record.output_tokens >= FEWEST_TOKENS else None


def notable(parts: dict[str, float], usual: dict[str, float]) -> list[str]:
    """Parts that took much longer than is usual, those that cost most first: "queue 1.20 s, usually 40 ms"."""
    longer = {
        part.short: parts[part.short] - usual[part.short]
        for part in REQUEST_PARTS
        if part.short in parts and part.short in usual and parts[part.short] > NOTABLE * usual[part.short]
    }
    e2e_s = parts.get(E2E.short, 0.0)
    told = [part for part in sorted(longer, key=lambda part: -longer[part]) if longer[part] > 0.05 * e2e_s]
    return [f"{part} {seconds(parts[part])}, usually {seconds(usual[part])}" for part in told]


def batch_of(record: RequestRecord) -> list[tuple[str, float, float | None]]:
    """What the engine ran beside it: each figure at its first token, and the most that it was meanwhile."""
    peaks = {name.removeprefix("peak_"): value for name, value in record.batch.items() if name.startswith("peak_")}
    return [(name, value, peaks.get(name)) for name, value in record.batch.items() if not name.startswith("peak_")]


def address_of(record: RequestRecord, selection: Selection) -> str:
    """The page of one request; its node and arrival tell it from others of the same id."""
    return f"/requests/{quote(record.request_id, safe='')}" + selection.frame_query(
        on=record.node, arrival=record.arrival.isoformat()
    )


def around(record: RequestRecord, selection: Selection) -> str:
    """The query of the minutes around its arrival, on its node."""
    start, end = record.arrival - timedelta(minutes=5), record.arrival + timedelta(minutes=5)
    if end > selection.now:
        end = selection.now
    words = {name: moment.isoformat(timespec="seconds") for name, moment in (("from", start), ("to", end))}
    return selection.frame_query(**words, pool=record.pool, node=record.node)


LIST = Page(
    "requests", "/requests", "Requests", (Part("requests", listed), Part("facets", facets, 15)), key="q", own=own
)
PAGE = Page(
    "request",
    "/requests/{request_id:path}",
    "Request",
    (Part("request", one, 30),),
    section="requests",
    whole=whole,
    bar=False,
)
