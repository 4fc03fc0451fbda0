"""`tailwright whatif`: what a change of load, prompts, replicas or knobs would do to a pool, as the twin forecasts."""

from typing import Annotated, get_args

import typer
from pydantic import ValidationError

from controlplane.client import Client
from controlplane.contract.duration_text import duration_text
from controlplane.contract.planning.whatif import Forecasted, HeldTo, WhatIf, WhatIfCreate, last_tried
from controlplane.contract.share_text import share_text
from controlplane.terminal.assignments import parse_assignments
from controlplane.terminal.bodies.contract_options import options_of
from controlplane.terminal.output.printing import Json, print_json, print_table
from controlplane.terminal.service_command import calls_service
from controlplane.terminal.service_connection import explain_values, fail
from controlplane.terminal.subcommand import subcommand
from controlplane.terminal.time_options import length_s

app = subcommand()


@app.command()
@calls_service()
def whatif(
    client: Client,
    pool: Annotated[str, typer.Option(help="The pool whose traffic is replayed in the twin.")],
    load: Annotated[str, typer.Option(help="Times as many requests a second, such as 2x.")] = "1x",
    prompts: Annotated[str, typer.Option(help="Times as many tokens of each prompt, such as x1.5.")] = "1x",
    outputs: Annotated[str, typer.Option(help="Times as many tokens of each answer.")] = "1x",
    replicas: Annotated[int | None, typer.Option(help="Serving nodes; default: as many as there are.", min=1)] = None,
    model_parallel: Annotated[
        int, typer.Option(help="Times as many devices that each replica's model is split over.", min=1, max=64)
    ] = 1,
    set_: Annotated[list[str], typer.Option("--set", help="knob=value; repeatable.")] = [],  # noqa: B006
    good: Annotated[
        list[str], typer.Option(help="ttft, tpot or e2e=SECONDS that a good request keeps; repeatable.")
    ] = [],  # noqa: B006
    window: Annotated[str, typer.Option(help="How much of the newest traffic to look at.")] = "10m",
    seed: Annotated[int, typer.Option(help="Of all chances.", min=0)] = 0,
    as_json: Json = False,
) -> None:
    """Forecast what a change would do to a pool. A forecast is no proof: a study or a canary is."""
    try:
        asked = WhatIfCreate(
            pool=pool,
            window_s=length_s("--window", window),
            load=factor("--load", load),
            prompts=factor("--prompts", prompts),
            outputs=factor("--outputs", outputs),
            replicas=replicas,
            model_parallel=model_parallel,
            knobs=parse_assignments(set_),
            good=parse_assignments(good, "--good", "ttft=SECONDS", known=get_args(HeldTo)),
            seed=seed,
        )
    except ValidationError as error:
        fail(explain_values(error, options_of(WhatIfCreate, {"window_s": "--window, in seconds"})))
    answer = client.what_if(asked)
    if as_json:
        print_json(answer)
        return
    print_table(("metric", "measured", "twin, as it is", "its error", "as asked", "interval"), rows(answer))
    typer.echo(answer.summary)
    if tried := last_tried(client.studies(), pool):
        typer.echo(tried)


def factor(option: str, text: str) -> float:
    """ "2x", "x2" or "2" to 2.0. Leaves with status 2 for anything else."""
    try:
        return float(text.strip().removeprefix("x").removesuffix("x"))
    except ValueError:
        fail(f"{option}: wants a factor such as 2x, got {text!r}")


def rows(answer: WhatIf) -> list[tuple[str, ...]]:
    """A line for each quantile that both have."""
    found: list[tuple[str, ...]] = []
    for name, now in answer.as_is.quantiles.items():
        then: Forecasted | None = answer.changed.quantiles.get(name)
        metric, _, q = name.partition(":")
        measured, error = answer.measured.get(name), answer.error.get(name)
        found.append(
            (
                f"{metric} p{100 * float(q):g}",
                "-" if measured is None else duration_text(measured),
                duration_text(now.value_s),
                "-" if error is None else share_text(error),
                "-" if then is None else duration_text(then.value_s),
                "-" if then is None else f"{duration_text(then.low_s)} to {duration_text(then.high_s)}",
            )
        )
    return found
