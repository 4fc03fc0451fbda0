"""`tailwright quantiles`: a latency's quantiles, in whole or by label and by step."""

from typing import Annotated

import typer

from controlplane.client import Client
from controlplane.contract.bodies.telemetry import QuantilePoint, QuantilesAnswer, QuantileSeries
from controlplane.contract.duration_text import duration_text
from controlplane.contract.histogram import error_text
from controlplane.contract.metrics import LABELS
from controlplane.terminal.assignments import parse_labels
from controlplane.terminal.output.printing import Json, labels_text, moment_text, print_json, print_table
from controlplane.terminal.service_command import calls_service
from controlplane.terminal.service_connection import fail
from controlplane.terminal.subcommand import subcommand
from controlplane.terminal.time_options import End, Start, Window, moment

app = subcommand()


@app.command()
@calls_service()
def quantiles(
    client: Client,
    metric: Annotated[str, typer.Argument(help="Short name, such as ttft, itl, tpot, e2e, queue, prefill.")] = "ttft",
    q: Annotated[str, typer.Option(help="Quantiles, comma separated.")] = "0.5,0.95,0.99",
    window: Window = None,
    start: Start = None,
    end: End = None,
    step: Annotated[str | None, typer.Option(help="A row a step, e.g. 10s; default: one row for the span.")] = None,
    by: Annotated[str | None, typer.Option(help=f"Labels to group by, comma separated: {', '.join(LABELS)}.")] = None,
    where: Annotated[list[str], typer.Option(help="Only requests with this: label=value; repeat it for more.")] = [],  # noqa: B006
    top: Annotated[int | None, typer.Option(help="At most so many series, the largest.", min=1)] = None,
    as_json: Json = False,
) -> None:
    """Show quantiles of a latency; of one pool with --where pool=chat, of each node with --by node."""
    answer = client.quantiles(
        metric,
        [_quantile(text) for text in q.split(",")],
        window=window,
        start=moment("start", start),
        end=moment("end", end),
        step=step,
        by=tuple(by.split(",")) if by else (),
        top=top,
        **parse_labels("--where", where, LABELS),
    )
    if as_json:
        print_json(answer)
        return
    rows = rows_of(answer)
    if not rows:
        typer.echo(f"no value of {metric} from {moment_text(answer.start)} to {moment_text(answer.end)}", err=True)
        return
    print_table(("of", "time", *_names(answer), "values", ""), rows)
    if answer.left_out is not None:
        typer.echo(f"{answer.left_out.series} more series: {answer.left_out.mend}", err=True)


def rows_of(answer: QuantilesAnswer) -> list[tuple[str, ...]]:
    """A row for each series, or for each of its steps."""
    rows = []
    for series in answer.series:
        of = labels_text(series.labels) or answer.metric
        spans: list[tuple[str, QuantilePoint | QuantileSeries]] = [("-", series)]
        if series.points is not None:
            spans = [(moment_text(point.time), point) for point in series.points]
        for time, one in spans:
            figures = (_figure(one.quantiles.get(name), answer.unit) for name in _asked(answer))
            rows.append((of, time, *figures, str(one.count), error_text(series.relative_error)))
    return rows


def _asked(answer: QuantilesAnswer) -> list[str]:
    """As the answer names them."""
    return list(answer.series[0].quantiles) if answer.series else []


def _names(answer: QuantilesAnswer) -> list[str]:
    return [f"p{100 * float(name):.6g}" for name in _asked(answer)]


def _figure(value: float | None, unit: str) -> str:
    if value is None:
        return "-"
    return duration_text(value) if unit == "s" else f"{value:.4g}"


def _quantile(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        fail(f"--q: wants numbers within 0 and 1 with commas between, got {text!r}")
