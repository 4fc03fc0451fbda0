"""`tailwright load`: telemetry out of files, with its own timestamps."""

from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

from controlplane.client import Client
from controlplane.terminal import extras
from controlplane.terminal.output.printing import Json, print_json
from controlplane.terminal.service_command import calls_service
from controlplane.terminal.service_connection import fail
from controlplane.terminal.subcommand import subcommand

if TYPE_CHECKING:
    from controlplane.command.load.sending import Totals

TIMEOUT_S = 330.0
REASON = 300
"""Characters of a refusal that are shown: it may name every metric of a request."""
NAMES = 60
"""Characters of files' names beside the bar."""
FILES_AT_ONCE = 256
"""Are read side by side: each is open meanwhile."""


class Signal(StrEnum):
    METRICS = "metrics"
    TRACES = "traces"


app = subcommand()


@app.command()
@calls_service(timeout_s=TIMEOUT_S)
def load(
    client: Client,
    files: Annotated[
        list[Path], typer.Argument(help="JSON lines or length-delimited messages.", exists=True, dir_okay=False)
    ],
    protobuf: Annotated[
        Signal, typer.Option(help="What OTLP protobuf messages are, which they do not tell themselves.")
    ] = Signal.METRICS,
    parallel: Annotated[int, typer.Option(help="Requests under way at once.", min=1, max=64)] = 4,
    as_json: Json = False,
) -> None:
    """Load history: OTLP or packed reports from files, each under an identity of its own, so that loading a file
    again, or going on after a break, doubles nothing. docs/history.md has the formats."""
    extras.need("load", "server")
    from controlplane.command.load.batches import batches, stream_of
    from controlplane.command.load.messages import Form
    from controlplane.command.load.sending import Totals
    from controlplane.command.load.sending import load as send
    from controlplane.command.load.upload_requests import side_by_side

    form = Form.TRACES_PROTOBUF if protobuf is Signal.TRACES else Form.METRICS_PROTOBUF
    console = Console(stderr=True)
    loaded: list[tuple[Path, Totals]] = []
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    try:
        with Progress(*columns, TimeRemainingColumn(), console=console) as progress:
            for start in range(0, len(files), FILES_AT_ONCE):
                streams = {stream_of(file): file for file in files[start : start + FILES_AT_ONCE]}
                # Compressed files hold more than their size says: the bar then ends early, the figures do not.
                told = ", ".join(file.name for file in streams.values())
                task = progress.add_task(told[:NAMES], total=sum(file.stat().st_size for file in streams.values()))
                totals = send(
                    client,
                    side_by_side([batches(file, stream, form) for stream, file in streams.items()]),
                    parallel=parallel,
                    on_answer=lambda batch, task=task: progress.advance(task, batch.size),  # type: ignore[misc]
                )
                for stream, file in streams.items():
                    loaded.append((file, totals.get(stream, Totals())))
                    for line in () if as_json else _lines(*loaded[-1]):
                        progress.console.print(line, markup=False, soft_wrap=True)
    except OSError as error:
        fail(f"a file cannot be read: {error}", 1)
    refused = sum(found.refused for _, found in loaded)
    if as_json:
        print_json({"files": [_document(file, found) for file, found in loaded], "refused": refused})
    raise typer.Exit(1 if refused else 0)


def _document(file: Path, found: "Totals") -> dict[str, Any]:
    counts = {"batches": found.batches, "messages": found.messages, "known": found.known, "refused": found.refused}
    return {"file": str(file), **counts, "reasons": dict(found.reasons)}


def _lines(file: Path, found: "Totals") -> Iterator[str]:
    yield _told(file, found)
    for reason, times in found.reasons.most_common(3):
        yield f"  {times} times: {reason[:REASON]}"


def _told(file: Path, totals: "Totals") -> str:
    told = f"{file}: {totals.messages} messages in {totals.batches} parts"
    if totals.known:
        told += f", {totals.known} of them were loaded before"
    return told + (f"; {totals.refused} points or spans were refused" if totals.refused else "")
