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
from controlplane.contract.share_text import share_text
from controlplane.terminal import extras
from controlplane.terminal.assignments import parse_assignments
from controlplane.terminal.output.printing import Json, print_json, print_table
from controlplane.terminal.service_choice import Choice
from controlplane.terminal.service_command import calls_service
from controlplane.terminal.service_connection import fail, reaching
from controlplane.terminal.subcommand import subcommand

WIDTHS = (1, 2, 4, 8)
COLUMNS = ("accelerator", "tensor_parallel", "prompt", "output", "concurrency", "tpot_ms")
HEADER = ("accelerator", "TP", "replicas", "at once", "between tokens", "nine of ten within", "s for 1,000")
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
    pool: Annotated[
        str | None, typer.Option(help="Take lengths and the busiest rate from this pool's traffic.")
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
        Path | None, typer.Option(help=f"CSV of what you measured: {','.join(COLUMNS)}.", exists=True, dir_okay=False)
    ] = None,
    as_json: Json = False,
) -> None:
    """Forecast a dense model's time between tokens, and how many replicas carry a rate, on accelerators and widths that
    you do not have. No proof."""
    extras.need("hardware", "tuner")
    from tuner.hardware.accelerators import ACCELERATORS
    from tuner.hardware.hardware_rows import Wanted, hardware_rows
    from tuner.hardware.model_shape import read_shape
    from tuner.hardware.steady_batch import Load

    if kv_bits not in (None, 8, 16):
        fail(f"--kv-bits: 8 or 16, got {kv_bits}")
    if concurrency is not None and (rate is not None or tpot_limit_ms is not None):
        fail("--concurrency: how many are under way follows from --rate and --tpot-limit-ms; give it or them")
    prices = _prices(price)
    if unknown := sorted(set(prices) - set(ACCELERATORS)):
        fail(f"--price: no accelerator {unknown[0]!r}; there are: {', '.join(ACCELERATORS)}")
    known = {"prompt": prompt, "output": output, "cached": cached, "rate": rate}
    if pool is not None:
        with reaching(choice) as client:
            seen = pool_load(client.advice(pool, window=window, peak=1.0).worksheet)
        known = {name: seen[name] if value is None else value for name, value in known.items()}
    if concurrency is not None:
        known["rate"] = None
    load = Load(_told(known, "prompt", pool), _told(known, "output", pool), concurrency or 1.0, known["cached"] or 0.0)
    wanted_rate = None if concurrency is not None else _told(known, "rate", pool)
    limit_s = math.inf if tpot_limit_ms is None else tpot_limit_ms / 1e3
    try:
        shape = read_shape(model)
        points = {} if measured is None else read_points(measured)
        wanted = Wanted(load, engine, weights, kv_bits, wanted_rate, limit_s, prices, points)
        widths = tensor_parallel or [one for one in WIDTHS if shape.heads % one == 0]
        rows = hardware_rows(shape, accelerator or list(ACCELERATORS), widths, wanted)
    except BadRequest as error:
        fail(error.message)
    if as_json:
        print_json(
            {"load": asdict(load) | {"rate": wanted_rate}, "items": [row.model_dump(mode="json") for row in rows]}
        )
        return
    what = f"{load.concurrency:g} requests always under way" if wanted_rate is None else f"{wanted_rate:.3g} requests/s"
    typer.echo(
        f"{what}, {load.prompt:.0f} tokens in ({share_text(load.cached)} cached), {load.output:.0f} out; {weights} "
        f"weights on {engine}, {byte_text(rows[0].weight_bytes)}."
    )
    costs = ["an hour", "1M tokens"] if prices else []
    print_table([*HEADER, *costs, "known", ""], [_cells(row, bool(prices)) for row in rows])
    typer.echo(PROOF)


def pool_load(sheet: Worksheet) -> dict[str, float | None]:
    """A mean request of the pool, and the requests a second of its busiest minute; None: not told."""
    requests, peak = sheet.requests_per_s, sheet.at_peak
    known = {"prompt": sheet.prompt_tokens_per_s, "output": sheet.output_tokens_per_s}
    found = {
        name: None if rate is None or requests is None or not requests.mean else max(1.0, rate.mean / requests.mean)
        for name, rate in known.items()
    }
    return {**found, "cached": sheet.cached_share, "rate": None if peak is None else peak.requests_per_s}


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


def _told(known: dict[str, float | None], name: str, pool: str | None) -> float:
    value = known[name]
    if value is None:
        why = ", or take it from a --pool" if pool is None else f": {pool} served too little in that time to tell"
        fail(f"give --{name}{why}")
    return value


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
        shown(row.replicas, "{}"),
        shown(row.running, "{:.1f}"),
        "-" if row.tpot_s is None else duration_text(row.tpot_s),
        within,
        shown(row.device_s_per_1000, "{:.2f}"),
        *([shown(row.cost_per_hour, "{:.2f}"), shown(row.cost_per_million, "{:.2f}")] if is_priced else []),
        row.known_as,
        "; ".join(row.notes),
    ]
