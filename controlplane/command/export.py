"""`tailwright export`: telemetry into a CSV or Parquet file."""

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from controlplane.client import Client
from controlplane.contract.metrics import LABELS
from controlplane.terminal.assignments import parse_labels
from controlplane.terminal.output.whole_file import write_whole
from controlplane.terminal.service_command import calls_service
from controlplane.terminal.service_connection import fail
from controlplane.terminal.subcommand import subcommand


class Format(StrEnum):
    CSV = "csv"
    PARQUET = "parquet"


app = subcommand()


@app.command()
@calls_service()
def export(
    client: Client,
    metric: Annotated[str | None, typer.Argument(help="Short name, e.g. ttft; none with --requests.")] = None,
    format: Annotated[Format | None, typer.Option(help="Default: by the end of --out's name, else csv.")] = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="File to write; default: standard output.")] = None,
    window: Annotated[str | None, typer.Option(help="How far back from --end, e.g. 1h; default 5m.")] = None,
    start: Annotated[str | None, typer.Option(help="RFC 3339, e.g. 2026-01-31T12:00:00Z.")] = None,
    end: Annotated[str | None, typer.Option(help="RFC 3339; default: now.")] = None,
    step: Annotated[str | None, typer.Option(help="A row a step, e.g. 10s; default: one row for the span.")] = None,
    by: Annotated[str | None, typer.Option(help=f"Labels to group by, comma separated: {', '.join(LABELS)}.")] = None,
    where: Annotated[
        list[str] | None, typer.Option(help="Only series with this: label=value; repeat it for more.")
    ] = None,
    q: Annotated[str, typer.Option(help="Quantiles, comma separated.")] = "0.5,0.95,0.99",
    buckets: Annotated[bool, typer.Option("--buckets", help="Raw bucket counts instead of quantiles.")] = False,
    requests: Annotated[bool, typer.Option("--requests", help="Request records with their waterfalls.")] = False,
) -> None:
    """Write a metric's series, its bucket counts, or request records into a file. A file is whole or not there."""
    if (metric is None) != requests:
        fail("give a metric (e.g. ttft), or --requests, and not both")
    format = format or (Format.PARQUET if out is not None and out.suffix == ".parquet" else Format.CSV)
    if format is Format.PARQUET and out is None and sys.stdout.isatty():
        fail("--format parquet: a terminal cannot show it; give --out FILE")
    params: dict[str, Any] = {
        "format": format.value,
        "window": window,
        "start": start,
        "end": end,
        **parse_labels("--where", where or [], LABELS),
    }
    if requests:
        params["requests"] = "true"
    else:
        params |= {"metric": metric, "step": step, "by": by}
        params |= {"buckets": "true"} if buckets else {"q": q}
    try:
        write_whole(client.export(**params), out)
    except OSError as error:
        fail(f"--out: {error}", 1)
