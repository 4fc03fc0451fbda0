"""`tailwright workloads`: traffic that the service keeps under a name, for studies to replay."""

from pathlib import Path
from typing import Annotated

import typer

from controlplane.client import Client
from controlplane.contract.bodies.workload import KeptWorkload, WorkloadCreate, WorkloadFormat
from controlplane.contract.duration_text import duration_text
from controlplane.contract.errors import BadRequest
from controlplane.contract.planning.packed_traffic import packed
from controlplane.contract.share_text import share_text
from controlplane.terminal.bodies.contract_options import body_of
from controlplane.terminal.output.printing import (
    Columns,
    Json,
    moment_text,
    print_json,
    show_done,
    show_list,
    show_record,
)
from controlplane.terminal.service_command import calls_service
from controlplane.terminal.service_connection import fail
from controlplane.terminal.subcommand import subcommand
from tuner.workload.packed_size import refuse_too_large
from tuner.workload.rescale import cut
from tuner.workload.trace_file import load_as

app = subcommand(help="Workloads: traffic kept under a name, for studies to replay.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(help="Its name, as the list shows it.")]

NAMED = {"name": "NAME", "traffic": "--file"}

COLUMNS: Columns[KeptWorkload] = {
    "name": lambda one: one.name,
    "requests": lambda one: f"{one.figures.requests:,}",
    "span": lambda one: duration_text(one.figures.span_s),
    "per second": lambda one: f"{one.figures.rate_per_s:g}",
    "prompts p50/p95/p99": lambda one: _lengths(one.figures.input_tokens),
    "answers p50/p95/p99": lambda one: _lengths(one.figures.output_tokens),
    "repeated prefixes": lambda one: share_text(one.figures.prefix_share),
    "format": lambda one: one.format.value,
    "added": lambda one: moment_text(one.created_at),
    "by": lambda one: one.created_by,
}


def _lengths(percentiles: dict[str, int]) -> str:
    return "/".join(str(tokens) for tokens in percentiles.values())


@app.command("list")
@calls_service()
def listing(client: Client, as_json: Json = False) -> None:
    """Every workload that is kept, newest first."""
    show_list(client.workloads(), COLUMNS, as_json=as_json, what="workload")


@app.command("show")
@calls_service()
def show(client: Client, name: Name, as_json: Json = False) -> None:
    """What one is like: its rate, its lengths by percentile, its repeated prefixes, its span."""
    show_record(client.kept_workload(name), as_json=as_json)


@app.command("add")
@calls_service()
def add(
    client: Client,
    name: Annotated[str, typer.Argument(help="What studies will call it.")],
    file: Annotated[
        Path, typer.Option(help="A file with arrivals and lengths; no text of it is sent.", exists=True, dir_okay=False)
    ],
    kind: Annotated[
        WorkloadFormat | None, typer.Option("--format", help="How it is read; default: recognised.")
    ] = None,
    part: Annotated[
        int | None, typer.Option(help="Which benchmark of a GuideLLM report that has several, from 1.", min=1)
    ] = None,
    requests: Annotated[int | None, typer.Option(help="Only its first so many requests.", min=1)] = None,
    as_json: Json = False,
) -> None:
    """Keep the traffic of a file under a name: tailwright workloads add friday --file trace.jsonl."""
    try:
        found, kind = load_as(file, kind, part)
    except BadRequest as error:
        fail(f"--file: {error.message}", 1)
    traffic = packed([cut(found, 0, requests or len(found.requests))])
    refuse_too_large(traffic, "--requests")
    made = client.add_workload(body_of(WorkloadCreate, {"name": name, "format": kind, "traffic": traffic}, NAMED))
    if as_json:
        print_json(made)
        return
    told = made.figures
    typer.echo(
        f"workload {made.name}: {told.requests:,} requests in {duration_text(told.span_s)}, read as {made.format.value}"
    )


@app.command("remove")
@calls_service()
def remove(client: Client, name: Name, as_json: Json = False) -> None:
    """Forget one. Studies that have begun keep their traffic."""
    client.remove_workload(name)
    show_done(f"workload {name} is removed", as_json=as_json)
