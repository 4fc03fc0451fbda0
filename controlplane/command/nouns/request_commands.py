"""`tailwright requests`: finished requests, the slowest or the newest, and one with its waterfall."""

from enum import StrEnum
from typing import Annotated

import typer

from controlplane.client import Client
from controlplane.contract.bodies.workload import RequestRecord
from controlplane.contract.duration_text import duration_text
from controlplane.contract.errors import NotFound
from controlplane.contract.metrics import E2E, REQUEST_PARTS, TTFT, UNACCOUNTED
from controlplane.terminal.printing import Columns, Json, moment_text, print_table, show_list, show_record
from controlplane.terminal.service_command import calls_service
from controlplane.terminal.subcommand import subcommand
from controlplane.terminal.time_options import End, Start, Window, moment

app = subcommand(help="Finished requests, each with its waterfall.", no_args_is_help=True)

KEPT = "48h"
"""How far back waterfalls of single requests are kept by default."""
BAR_CELLS = 40
PARTS = (*REQUEST_PARTS, UNACCOUNTED)


class Order(StrEnum):
    """Which come first."""

    SLOWEST = "slowest"
    NEWEST = "newest"


COLUMNS: Columns[RequestRecord] = {
    "arrival": lambda one: moment_text(one.arrival),
    "id": lambda one: one.request_id,
    "node": lambda one: one.node,
    "revision": lambda one: str(one.revision),
    "prompt": lambda one: str(one.prompt_tokens),
    "cached": lambda one: str(one.cached_tokens),
    "output": lambda one: str(one.output_tokens),
    "ttft": lambda one: _part(one, TTFT.short),
    "e2e": lambda one: _part(one, E2E.short),
    "ended": lambda one: one.finish_reason,
}


@app.command("list")
@calls_service()
def listing(
    client: Client,
    pool: Annotated[str | None, typer.Option(help="Only this pool's.")] = None,
    node: Annotated[str | None, typer.Option(help="Only this node's.")] = None,
    window: Window = None,
    start: Start = None,
    end: End = None,
    order: Annotated[Order, typer.Option(help="Which come first.")] = Order.NEWEST,
    limit: Annotated[int, typer.Option(help="At most so many.", min=1, max=500)] = 50,
    cursor: Annotated[int | None, typer.Option(help="Go on where a list has ended: its `next`.")] = None,
    as_json: Json = False,
) -> None:
    """Requests that arrived in a span of time."""
    page = client.requests(
        pool=pool,
        node=node,
        window=window,
        start=moment("start", start),
        end=moment("end", end),
        order=order.value,
        limit=limit,
        cursor=cursor,
    )
    show_list(page.items, COLUMNS, as_json=as_json, following=page.next, what="request")


@app.command("show")
@calls_service()
def show(
    client: Client,
    request_id: Annotated[str, typer.Argument(help="Its id.")],
    window: Annotated[str, typer.Option(help="How far back to look.")] = KEPT,
    as_json: Json = False,
) -> None:
    """One request, and where its time went."""
    found = client.requests(request_id=request_id, window=window, limit=1).items
    if not found:
        raise NotFound(f"no request {request_id!r} arrived in the last {window}")
    show_record(found[0], as_json=as_json, leave_out=("parts",))
    if not as_json:
        typer.echo("")
        print_table(("part", "took", ""), waterfall(found[0]))


def waterfall(record: RequestRecord) -> list[tuple[str, str, str]]:
    """A row for each part, in the order that they happen, with a bar where it lies within the whole."""
    whole_s = record.parts.get(E2E.short) or sum(record.parts.get(one.short, 0.0) for one in PARTS)
    rows, passed_s = [], 0.0
    for component in PARTS:
        took_s = record.parts.get(component.short)
        if took_s is None:
            continue
        before = round(BAR_CELLS * passed_s / whole_s) if whole_s else 0
        passed_s += took_s
        after = round(BAR_CELLS * passed_s / whole_s) if whole_s else 0
        rows.append((component.short, duration_text(took_s), "·" * before + "█" * (after - before)))
    return [*rows, *((one.short, _part(record, one.short), "") for one in (TTFT, E2E) if one.short in record.parts)]


def _part(record: RequestRecord, name: str) -> str:
    return duration_text(record.parts[name]) if name in record.parts else "-"
