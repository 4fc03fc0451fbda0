"""`tailwright replay`: a trace against a server, open loop, measured from the client."""

from collections import Counter
from pathlib import Path
from typing import Annotated

import typer

from controlplane.contract.bodies.knob_schema import REPLAYED
from controlplane.contract.duration_text import duration_text
from controlplane.contract.errors import TailwrightError
from controlplane.terminal import extras
from controlplane.terminal.output.printing import Json, print_json, print_table
from controlplane.terminal.service_connection import fail
from controlplane.terminal.subcommand import subcommand

QUANTILES = (0.5, 0.95, 0.99)

app = subcommand()


@app.command()
def replay(
    target: Annotated[str, typer.Option(help="Base URL of an OpenAI-compatible server.")] = "http://127.0.0.1:7400",
    model: Annotated[str, typer.Option(help="Model name to ask for.")] = "tailwright-py-5m",
    trace: Annotated[
        Path | None,
        typer.Option(help="A file of traffic, as `workloads add` takes; without, one is generated.", exists=True),
    ] = None,
    shape: Annotated[str, typer.Option(help="Shape of a generated trace: chat, rag, code or agents.")] = "chat",
    requests: Annotated[int, typer.Option(help="At most so many requests.", min=1)] = 100,
    rate: Annotated[float, typer.Option(help="Requests a second of a generated trace.", min=0.01)] = 2.0,
    max_input: Annotated[int, typer.Option(help="Lengths are scaled down to this many prompt tokens.", min=1)] = 900,
    max_output: Annotated[int, typer.Option(help="... and to this many output tokens.", min=1)] = 64,
    seed: Annotated[int, typer.Option(help="Fixes the generated trace and the prompts' text.")] = 0,
    as_json: Json = False,
) -> None:
    """Replay a trace with its own arrival times and print the client's exact latency quantiles."""
    extras.need("replay", "tuner")
    from tuner.replay.replay import run_replay
    from tuner.workload import generate, rescale
    from tuner.workload.corpus import engine_tokenizer, read_tokens
    from tuner.workload.prompt import prompts
    from tuner.workload.trace_file import load

    try:
        if trace is not None:
            workload = load(trace)
            workload = rescale.cut(workload, 0, min(requests, len(workload.requests)))
            workload = rescale.scale_lengths(workload, max_input=max_input, max_output=max_output)
        else:
            if shape not in generate.SHAPES:
                fail(f"--shape: one of {', '.join(generate.SHAPES)}, got {shape!r}")
            fitted = generate.fitted(generate.SHAPES[shape], max_input=max_input, max_output=max_output)
            workload = generate.generate(fitted, seed=seed, rate_per_s=rate, requests=requests)
        corpus = read_tokens(engine_tokenizer(target), 60_000)
        result = run_replay(workload, prompts(workload, corpus, salt=seed), target, model=model)
    except TailwrightError as error:
        fail(error.message, 1)
    quantiles = {metric: {f"{q:g}": result.quantile(metric, q) for q in QUANTILES} for metric in REPLAYED}
    if as_json:
        counts = {"requests": len(result.timings), "failed": len(result.errors), "duration_s": result.duration_s}
        print_json({**counts, "quantiles": quantiles})
    else:
        typer.echo(f"{len(result.timings)} requests in {result.duration_s:.1f} s, {len(result.errors)} failed")
        rows = [(metric, *map(_figure, found.values())) for metric, found in quantiles.items()]
        print_table(("metric", *(f"p{100 * q:g}" for q in QUANTILES)), rows)
    for reason, times in Counter(timing.error for timing in result.errors).most_common(5):
        typer.echo(f"{times} failed: {reason}", err=True)
    raise typer.Exit(1 if result.errors else 0)


def _figure(seconds: float | None) -> str:
    return "-" if seconds is None else duration_text(seconds)
