"""`tailwright advice`: what binds a pool, what it carries, and which techniques are worth a trial."""

from typing import Annotated

import typer

from controlplane.client import Client
from controlplane.client.connection import UNIX
from controlplane.contract.duration_text import duration_text
from controlplane.contract.planning.advice import Advice, MixAdvice, PartShift, Rate, TechniqueAdvice
from controlplane.contract.share_text import share_text
from controlplane.contract.shown_url import address
from controlplane.terminal.output.printing import Json, print_json, print_table
from controlplane.terminal.service_command import calls_service
from controlplane.terminal.subcommand import subcommand
from controlplane.terminal.time_options import End, Start, moment

app = subcommand()


@app.command()
@calls_service()
def advice(
    client: Client,
    pool: Annotated[str, typer.Option(help="The pool to advise on.")],
    window: Annotated[str | None, typer.Option(help="How far back from --end, a week at most; default 15m.")] = None,
    start: Start = None,
    end: End = None,
    peak: Annotated[float, typer.Option(help="So many times the busiest minute, for what it means.", min=1)] = 2.0,
    as_json: Json = False,
) -> None:
    """Say what binds a pool and what is worth a trial. What a technique gains, only its trial tells."""
    from_ = moment("--start", start)
    found = client.advice(
        pool, window=window or (None if from_ else "15m"), start=from_, end=moment("--end", end), peak=peak
    )
    if as_json:
        print_json(found)
        return
    typer.echo(found.binds.sentence)
    if found.binds.shares:
        shares = [(one.limit.value, share_text(one.share, 1), one.lifted_by or "-") for one in found.binds.shares]
        print_table(("limit", "of the steps", "lifted by"), shares)
    if found.binds.roofline is not None:
        typer.echo(found.binds.roofline.says)
    for words in found.binds.missing:
        typer.echo(f"not known: {words}")
    print_table(("carried", "mean", "busiest", f"at {peak:g} x"), carried(found))
    site = "" if client.base_url.startswith(UNIX) else address(client.base_url).rstrip("/")
    if found.mix is not None:
        tell_mix(found.mix, site)
    typer.echo(found.because)
    if found.techniques:
        header = ("technique", "touches at most", "fits", "knob", "proof")
        print_table(header, [technique_row(one, site) for one in found.techniques])


def tell_mix(mix: MixAdvice, site: str) -> None:
    """Whether the traffic is still what the pool was tuned for. site: of the dashboard."""
    typer.echo(mix.says)
    if mix.parts:
        header = ("traffic", "then", "now", "score", "95 %", "drifted")
        print_table(header, [shift_row(one) for one in mix.parts])
    if mix.study:
        typer.echo(f"study: {site}{mix.study}")


def shift_row(one: PartShift) -> tuple[str, ...]:
    interval = f"{one.low:.2f} to {one.high:.2f}"
    drifted = "yes" if one.drifted else "no"
    return (one.part.value, _number(one.then), _number(one.now), f"{one.score:.2f}", interval, drifted)


def carried(found: Advice) -> list[tuple[str, ...]]:
    """A line a figure: what was carried, and what the peak means."""
    sheet, peak = found.worksheet, found.worksheet.at_peak
    rows = [
        ("requests/s", sheet.requests_per_s, None if peak is None else peak.requests_per_s),
        ("tokens in/s", sheet.prompt_tokens_per_s, None if peak is None else peak.prompt_tokens_per_s),
        ("tokens out/s", sheet.output_tokens_per_s, None if peak is None else peak.output_tokens_per_s),
    ]
    found_rows = [(name, *_rate(rate), _number(at_peak)) for name, rate, at_peak in rows]
    tails = [None if one is None else duration_text(one) for one in (sheet.ttft_p95_s, sheet.ttft_p99_s)]
    return [
        *found_rows,
        ("nodes", str(sheet.nodes), "-", "-" if peak is None else str(peak.nodes)),
        ("node hours for a million tokens out", _number(sheet.node_hours_per_million), "-", "-"),
        ("ttft p95", tails[0] or "-", "-", "-"),
        ("ttft p99", tails[1] or "-", "-", "-"),
    ]


def technique_row(one: TechniqueAdvice, site: str) -> tuple[str, ...]:
    """site: of the dashboard, whose forms `proof` leads to."""
    proof = one.study or one.forecast
    touches = "not known" if one.touches is None else share_text(one.touches, 1)
    return (one.title, touches, one.fits.value.replace("_", " "), one.knob or "-", f"{site}{proof}" if proof else "-")


def _rate(rate: Rate | None) -> tuple[str, str]:
    return ("-", "-") if rate is None else (_number(rate.mean), _number(rate.peak))


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"
