"""`tailwright hardware`: what a model's tokens would take, and cost, on accelerators that are not there."""

import csv
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import ValidationError

from controlplane.contract.byte_text import byte_text
from controlplane.contract.duration_text import duration_text
from controlplane.contract.errors import BadRequest
from controlplane.contract.planning.hardware_forecast import (
    HardwareCreate,
    HardwareForecast,
    HardwareRow,
    MeasuredPoint,
)
from controlplane.contract.planning.whatif import ForecastClass
from controlplane.contract.reports.model_shape import ModelShape, shape_of
from controlplane.contract.share_text import share_text
from controlplane.hardware.accelerators import accelerator as known_accelerator
from controlplane.hardware.hardware_rows import Known, forecast
from controlplane.terminal.assignments import parse_assignments
from controlplane.terminal.bodies.contract_options import options_of
from controlplane.terminal.output.printing import Json, print_json, print_table
from controlplane.terminal.service_choice import Choice
from controlplane.terminal.service_command import calls_service
from controlplane.terminal.service_connection import explain_values, fail, reaching
from controlplane.terminal.subcommand import subcommand
from controlplane.terminal.time_options import length_s

COLUMNS = ("accelerator", "tensor_parallel", "prompt", "output", "concurrency", "tpot_ms")
ALSO = ("ttft_ms", "pipeline_parallel")
"""Columns that may be left out, or empty."""
HEADER = (
    "accelerator", "TP x PP", "replicas", "at once", "between tokens", "nine of ten within", "first token",
    "nine of ten within", "s for 1,000",
)  # fmt: skip
PROOF = "A forecast is no proof: one node of that kind, enrolled as a trial node, and a study measure it."

OPTIONS = options_of(
    HardwareCreate,
    {
        "window_s": "--window, in seconds",
        "accelerators": "--accelerator",
        "prices": "--price",
        "points": "--measured",
    },
)

app = subcommand()


@app.command()
@calls_service()
def hardware(
    choice: Choice,
    model: Annotated[
        Path | None,
        typer.Option(help="The model's config.json (transformers), or its folder; default: as the pool's nodes tell."),
    ] = None,
    accelerator: Annotated[list[str], typer.Option(help="One by its name; repeatable; default: all known.")] = [],  # noqa: B006
    tensor_parallel: Annotated[
        list[int], typer.Option(help="Accelerators that share each layer; repeatable; default: 1, 2, 4 and 8.", min=1)
    ] = [],  # noqa: B006
    pipeline_parallel: Annotated[
        list[int],
        typer.Option(
            help="Stages that the layers are cut into, each so wide; repeatable, four at most; default: 1.", min=1
        ),
    ] = [],  # noqa: B006
    weights: Annotated[
        str | None, typer.Option(help="Format of the weights: bf16, fp8, fp4 or int4; default: as the pool's, or bf16.")
    ] = None,
    kv_bits: Annotated[int | None, typer.Option(help="Of a cached value, 8 or 16; default: as the engine has.")] = None,
    engine: Annotated[str, typer.Option(help="vllm, sglang or trtllm.")] = "vllm",
    pool: Annotated[
        str | None, typer.Option(help="Take the model, lengths and the busiest rate from this pool.")
    ] = None,
    window: Annotated[str, typer.Option(help="How much of the pool's newest traffic, a week at most.")] = "1h",
    prompt: Annotated[float | None, typer.Option(help="Tokens of a prompt.", min=1)] = None,
    output: Annotated[float | None, typer.Option(help="Tokens of an answer.", min=1)] = None,
    cached: Annotated[
        float | None, typer.Option(help="Share of each prompt that the prefix cache has, 0 to 1.", min=0, max=1)
    ] = None,
    rate: Annotated[float | None, typer.Option(help="Requests a second that replicas shall carry.", min=0.001)] = None,
    tpot_limit_ms: Annotated[
        float | None, typer.Option(help="Most milliseconds between two tokens; with a rate.", min=0.001)
    ] = None,
    concurrency: Annotated[
        float | None, typer.Option(help="Instead of a rate: requests always under way on one replica.", min=1)
    ] = None,
    price: Annotated[
        list[str], typer.Option(help="What an accelerator's hour costs, such as h200=3.5; repeatable.")
    ] = [],  # noqa: B006
    measured: Annotated[
        Path | None,
        typer.Option(
            help=f"CSV of what you measured: {','.join(COLUMNS)}[,{','.join(ALSO)}].", exists=True, dir_okay=False
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Forecast a model's time between tokens and to the first, and how many replicas carry a rate, on accelerators and
    widths that you do not have. No proof."""
    if model is None and pool is None:
        fail("give --model, or a --pool whose nodes tell its sizes")
    try:
        asked = HardwareCreate(
            pool=pool,
            window_s=length_s("--window", window),
            model=None if model is None else read_shape(model),
            accelerators=accelerator,
            tensor_parallel=tensor_parallel,
            pipeline_parallel=pipeline_parallel,
            weights=weights,
            kv_bits=kv_bits,
            engine=engine,
            prompt=prompt,
            output=output,
            cached=cached,
            rate=rate,
            tpot_limit_ms=tpot_limit_ms,
            concurrency=concurrency,
            prices=_prices(price),
            points=[] if measured is None else read_points(measured),
        )
        if pool is None:
            found = forecast(asked, Known())
        else:
            with reaching(choice) as client:
                found = client.hardware(asked)
    except ValidationError as error:
        fail(explain_values(error, OPTIONS))
    except BadRequest as error:
        field = str(error.detail.get("field", ""))
        fail(error.message.replace(f"{field}:", f"{OPTIONS.get(field, field)}:", 1))
    if as_json:
        print_json(found)
        return
    typer.echo(_summary(found))
    costs = ["an hour", "1M tokens"] if asked.prices else []
    print_table([*HEADER, *costs, "known", ""], [_cells(row, bool(asked.prices)) for row in found.items])
    for note in found.notes:
        typer.echo(f"Note: {note}.")
    typer.echo(PROOF)


def read_shape(path: Path) -> ModelShape:
    """Of a config.json, or of the folder that has one. Raises BadRequest where it cannot be read."""
    file = path / "config.json" if path.is_dir() else path
    try:
        config = json.loads(_text(file))
    except (OSError, ValueError, RecursionError) as error:
        raise BadRequest(f"model: {file}: not a readable config.json ({error})", field="model") from error
    if not isinstance(config, dict):
        raise BadRequest(f"model: {file}: wants a JSON object as transformers writes it", field="model")
    try:
        return shape_of(config)
    except ValidationError as error:
        raise BadRequest(f"model: {file}: {explain_values(error)}", field="model") from error
    except BadRequest as error:
        raise BadRequest(f"model: {file}: {error.message}", field="model") from error


def read_points(file: Path) -> list[MeasuredPoint]:
    """Raises BadRequest, which names the line, for a row that is not as COLUMNS say."""
    try:
        rows = csv.DictReader(_text(file).splitlines())
    except (OSError, ValueError) as error:
        raise BadRequest(f"points: {file}: {error}", field="points") from error
    found: list[MeasuredPoint] = []
    try:
        if missing := [name for name in COLUMNS if name not in (rows.fieldnames or ())]:
            raise BadRequest(f"no column {missing[0]}; the first line wants {','.join(COLUMNS)}")
        found += map(_point, rows)
    except (csv.Error, BadRequest) as error:
        line = max(1, rows.line_num + isinstance(error, csv.Error))  # One that cannot be split is not counted yet.
        raise BadRequest(f"points: {file}, line {line}: {error}", field="points") from error
    if not found:
        raise BadRequest(f"points: {file}: no line below the columns' names", field="points")
    return found


def _point(row: Mapping[Any, Any]) -> MeasuredPoint:
    if None in row:
        raise BadRequest("more cells than the first line has names; a decimal point is a point")
    told = {name: row[name] for name in COLUMNS} | {name: row[name] for name in ALSO if row.get(name)}
    try:
        point = MeasuredPoint.model_validate(told)
    except ValidationError as error:
        raise BadRequest(explain_values(error)) from error
    known_accelerator(point.accelerator, "accelerator")
    return point


def _text(file: Path) -> str:
    """Raises ValueError with the mend where it is no text in UTF-8."""
    try:
        return file.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError("no text in UTF-8; save it as that") from error


def _prices(pairs: list[str]) -> dict[str, float]:
    found = parse_assignments(pairs, "--price", "accelerator=price")
    for name, value in found.items():
        if isinstance(value, bool) or not isinstance(value, int | float) or value <= 0:
            fail(f"--price {name}: wants a number above 0, got {value!r}")
    return {name: float(value) for name, value in found.items()}


def _summary(found: HardwareForecast) -> str:
    load = (
        f"{found.rate:.3g} requests/s" if found.rate is not None else f"{found.concurrency:g} requests always under way"
    )
    model = f"the model of {found.model_of}, " if found.model_of else ""
    return (
        f"{load}, {found.prompt:.0f} tokens in ({share_text(found.cached)} cached), {found.output:.0f} out; {model}"
        f"{found.weights} weights on {found.engine}, {byte_text(found.items[0].weight_bytes)}."
    )


def _cells(row: HardwareRow, is_priced: bool) -> list[str]:
    def shown(value: float | None, text: str) -> str:
        return "-" if value is None else text.format(value)

    def span(value: float | None, low: float | None, high: float | None) -> tuple[str, str]:
        if value is None or low is None:
            return "-", "-"
        return duration_text(
            value
        ), f"{duration_text(low)} {'or more' if high is None else f'to {duration_text(high)}'}"

    return [
        row.accelerator,
        f"{row.tensor_parallel} x {row.pipeline_parallel}" if row.pipeline_parallel > 1 else str(row.tensor_parallel),
        shown(row.replicas, "{}"),
        shown(row.running, "{:.1f}"),
        *span(row.tpot_s, row.low_s, row.high_s),
        *span(row.first_token_s, row.first_token_low_s, row.first_token_high_s),
        shown(row.device_s_per_1000, "{:.2f}"),
        *([shown(row.cost_per_hour, "{:.2f}"), shown(row.cost_per_million, "{:.2f}")] if is_priced else []),
        row.known_as if row.forecast_class is ForecastClass.CALIBRATED else f"{row.known_as}, extrapolated",
        "; ".join(row.notes),
    ]
