"""`tailwright hardware`: what a model's tokens would take, and cost, on accelerators that are not there."""

import csv
import math
from collections import defaultdict
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from controlplane.contract.byte_text import byte_text
from controlplane.contract.duration_text import duration_text
from controlplane.contract.errors import BadRequest
from controlplane.contract.planning.advice import Worksheet
from controlplane.terminal import extras
from controlplane.terminal.assignments import parse_assignments
from controlplane.terminal.output.printing import Json, print_json, print_table
from controlplane.terminal.service_choice import Choice
from controlplane.terminal.service_command import calls_service
from controlplane.terminal.service_connection import fail, reaching
from controlplane.terminal.subcommand import subcommand

WIDTHS = (1, 2, 4, 8)
COLUMNS = ("accelerator", "tensor_parallel", "prompt", "output", "concurrency", "tpot_ms")
PROOF = "A forecast is no proof: one node of that kind, enrolled as a trial node, and a study measure it."

app = subcommand()


@app.command()
@calls_service()
def hardware(
    choice: Choice,
    model: Annotated[Path, typer.Option(help="The model's config.json (transformers), or its folder.")],
    accelerator: Annotated[list[str], typer.Option(help="One by its name; repeatable; default: all known.")] = [],  # noqa: B006
    tensor_parallel: Annotated[
        list[int], typer.Option(help="Accelerators that share each layer; repeatable; default: 1, 2, 4 and 8.", min=1)
    ] = [],  # noqa: B006
    weights: Annotated[str, typer.Option(help="Format of the weights: bf16, fp8, fp4 or int4.")] = "bf16",
    kv_bits: Annotated[int | None, typer.Option(help="Of a cached value, 8 or 16; default: as the engine has.")] = None,
    engine: Annotated[str, typer.Option(help="vllm, sglang or trtllm.")] = "vllm",
    pool: Annotated[str | None, typer.Option(help="Take lengths and load from this pool's traffic, a node's.")] = None,
    window: Annotated[str, typer.Option(help="How much of the pool's newest traffic, a week at most.")] = "1h",
    prompt: Annotated[float | None, typer.Option(help="Tokens of a prompt.", min=1)] = None,
    output: Annotated[float | None, typer.Option(help="Tokens of an answer.", min=1)] = None,
    concurrency: Annotated[float | None, typer.Option(help="Requests that are always under way.", min=1)] = None,
    cached: Annotated[
        float | None, typer.Option(help="Share of each prompt that the prefix cache has, 0 to 1.", min=0, max=1)
    ] = None,
    price: Annotated[
        list[str], typer.Option(help="What an accelerator's hour costs, such as h200=3.5; repeatable.")
    ] = [],  # noqa: B006
    measured: Annotated[
        Path | None, typer.Option(help=f"CSV of what you measured: {','.join(COLUMNS)}.", exists=True, dir_okay=False)
    ] = None,
    as_json: Json = False,
) -> None:
    """Forecast a dense model's time between tokens on accelerators and widths that you do not have. No proof."""
    extras.need("hardware", "tuner")
    from tuner.hardware.accelerators import ACCELERATORS
    from tuner.hardware.hardware_rows import hardware_rows
    from tuner.hardware.model_shape import read_shape
    from tuner.hardware.steady_batch import Load

    if kv_bits not in (None, 8, 16):
        fail(f"--kv-bits: 8 or 16, got {kv_bits}")
    given = {"prompt": prompt, "output": output, "concurrency": concurrency, "cached": cached}
    if pool is not None:
        with reaching(choice) as client:
            seen = pool_load(client.advice(pool, window=window, peak=1.0).worksheet)
        given = {name: seen[name] if value is None else value for name, value in given.items()}
    if missing := [name for name in ("prompt", "output", "concurrency") if given[name] is None]:
        told = "served too little in that time to tell" if pool is not None else "or take all from a pool with --pool"
        fail(f"give --{missing[0]}" + (f": {pool} {told}" if pool is not None else f", {told}"))
    prices = _prices(price)
    if unknown := sorted(set(prices) - set(ACCELERATORS)):
        fail(f"--price: no accelerator {unknown[0]!r}; there are: {', '.join(ACCELERATORS)}")
    load = Load(**{name: value or 0.0 for name, value in given.items()})
    try:
        shape = read_shape(model)
        widths = tensor_parallel or [one for one in WIDTHS if shape.heads % one == 0]
        rows = hardware_rows(
            shape,
            accelerator or list(ACCELERATORS),
            widths,
            load,
            engine=engine,
            weights=weights,
            kv_bits=kv_bits,
            prices=prices,
            points={} if measured is None else read_points(measured),
        )
    except BadRequest as error:
        fail(error.message)
    if as_json:
        print_json({"load": asdict(load), "items": [row.model_dump(mode="json") for row in rows]})
        return
    typer.echo(
        f"{load.concurrency:g} requests always under way, {load.prompt:g} tokens in ({load.cached:.0%} cached), "
        f"{load.output:g} out; {weights} weights on {engine}, {byte_text(rows[0].weight_bytes)}."
    )
    header = ["accelerator", "TP", "run at once", "between tokens", "nine of ten within", "tokens/s", "s for 1,000"]
    print_table(
        [*header, *(["cost of 1M"] if prices else []), "known", ""], [_cells(row, bool(prices)) for row in rows]
    )
    typer.echo(PROOF)


def pool_load(sheet: Worksheet) -> dict[str, float | None]:
    """A mean request of the pool, and how many a node had under way in its busiest minute; None: not told."""
    requests, peak = sheet.requests_per_s, sheet.at_peak
    known = {"prompt": sheet.prompt_tokens_per_s, "output": sheet.output_tokens_per_s}
    found = {
        name: None if rate is None or requests is None or not requests.mean else max(1.0, rate.mean / requests.mean)
        for name, rate in known.items()
    }
    in_flight = None if peak is None or peak.in_flight is None else max(1.0, peak.in_flight / max(1, peak.nodes))
    return {**found, "concurrency": in_flight, "cached": sheet.cached_share or 0.0}


def read_points(file: Path) -> dict[tuple[str, int], list[tuple[Any, float]]]:
    """By accelerator and width. Raises BadRequest, which names the line, for a row that is not as COLUMNS say."""
    from tuner.hardware.steady_batch import Load

    found: dict[tuple[str, int], list[tuple[Any, float]]] = defaultdict(list)
    with file.open(encoding="utf-8", newline="") as opened:
        for number, row in enumerate(csv.DictReader(opened), start=2):
            try:
                sizes = [float(row[name]) for name in COLUMNS[2:]]
                place = (row["accelerator"], int(row["tensor_parallel"]))
            except (KeyError, TypeError, ValueError) as error:
                why = f"{file}, line {number}: wants {','.join(COLUMNS)} ({error})"
                raise BadRequest(why, field="measured") from error
            if not all(math.isfinite(one) and one > 0 for one in sizes):
                raise BadRequest(f"{file}, line {number}: wants figures above 0", field="measured")
            found[place].append((Load(*sizes[:3]), sizes[3] / 1e3))
    return dict(found)


def _prices(pairs: list[str]) -> dict[str, float]:
    found = parse_assignments(pairs, "--price", "accelerator=price")
    for name, value in found.items():
        if isinstance(value, bool) or not isinstance(value, int | float) or value <= 0:
            fail(f"--price: wants a number above 0 for {name}, got {value!r}")
    return {name: float(value) for name, value in found.items()}


def _cells(row: Any, is_priced: bool) -> list[str]:
    def shown(value: float | None, text: str) -> str:
        return "-" if value is None else text.format(value)

    within = "-" if row.low_s is None else f"{duration_text(row.low_s)} to {duration_text(row.high_s)}"
    return [
        row.accelerator,
        str(row.tensor_parallel),
        f"{row.running:.0f}" if row.running >= 1 else "-",
        "-" if row.tpot_s is None else duration_text(row.tpot_s),
        within,
        shown(row.tokens_per_s, "{:,.0f}"),
        shown(row.device_s_per_1000, "{:.2f}"),
        *([shown(row.cost_per_million, "{:.2f}")] if is_priced else []),
        row.known_as,
        "; ".join(row.notes),
    ]
