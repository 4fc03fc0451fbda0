"""`tailwright requests`: finished requests, the slowest or the newest, and one with its waterfall."""

from enum import StrEnum
from typing import Annotated

import typer

from controlplane.client import Client
from controlplane.contract.bodies.request_log import RequestDetail
from controlplane.contract.bodies.workload import RequestRecord
from controlplane.contract.duration_text import duration_text
from controlplane.contract.metrics import E2E, REQUEST_PARTS, TTFT, UNACCOUNTED
from controlplane.terminal.assignments import parse_labels
from controlplane.terminal.output.printing import (
    Columns,
    Json,
    moment_text,
    print_json,
    print_table,
    show_list,
    show_record,
)
from controlplane.terminal.service_command import calls_service
from controlplane.terminal.subcommand import subcommand
from controlplane.terminal.time_options import End, Start, Window, moment

app = subcommand(help="Finished requests, each with its waterfall.", no_args_is_help=True)

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
    where: Annotated[
        list[str], typer.Option(help="Only requests with this: label=value, e.g. pool=chat; repeat it for more.")
    ] = [],  # noqa: B006 - typer needs a list default
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
        window=window,
        start=moment("start", start),
        end=moment("end", end),
        order=order.value,
        limit=limit,
        cursor=cursor,
        **parse_labels("--where", where),
    )
    show_list(page.items, COLUMNS, as_json=as_json, following=page.next, what="request")


@app.command("show")
@calls_service()
def show(
    client: Client,
    request_id: Annotated[str, typer.Argument(help="Its id.")],
    as_json: Json = False,
) -> None:
    """One request, where its time went, and what is usual for such a request."""
    found = client.request(request_id)
    if as_json:
        print_json(found)
        return
    show_record(found.request, as_json=False, leave_out=("parts",))
    shared = f"{'' if found.peers_all else 'at least '}{found.peers_found}"
    usual = f"medians of prompts of {found.prompt_bucket} tokens in pool {found.request.pool}"
    typer.echo(f"\nIt shared the engine with {shared} other{'' if shared == '1' else 's'}. Usual: {usual}.")
    print_table(("part", "took", "usual", ""), waterfall(found))


def waterfall(found: RequestDetail) -> list[tuple[str, str, str, str]]:
    """A row for each part, in the order that they happen, with a bar where it lies within the whole."""
    parts = found.request.parts
    told = [(part.short, parts[part.short]) for part in PARTS if part.short in parts]
    whole_s = max(parts.get(E2E.short, 0.0), sum(took_s for _, took_s in told))
    rows, passed_s = [], 0.0
    for name, took_s in told:
        before = round(BAR_CELLS * passed_s / whole_s) if whole_s else 0
        passed_s += took_s
        after = round(BAR_CELLS * passed_s / whole_s) if whole_s else 0
        rows.append((name, duration_text(took_s), _usual(found, name), "·" * before + "█" * (after - before)))
    sums = [(one.short, _part(found.request, one.short), _usual(found, one.short), "") for one in (TTFT, E2E)]
    return rows + sums


def _usual(found: RequestDetail, name: str) -> str:
    return duration_text(found.typical.parts[name].median_s) if name in found.typical.parts else "-"


def _part(record: RequestRecord, name: str) -> str:
    return duration_text(record.parts[name]) if name in record.parts else "-"
