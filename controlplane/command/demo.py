"""`trimtab demo`: the whole loop on this machine."""

from pathlib import Path
from typing import Annotated

import typer

from controlplane.command import extras
from controlplane.command.connection import fail


def demo(
    once: Annotated[
        bool, typer.Option("--once", help="End after the story; status 0 only if every step happened.")
    ] = False,
    data_dir: Annotated[Path, typer.Option(help="Emptied at the start.")] = Path(".trimtab/demo"),
    port: Annotated[int, typer.Option(help="Port of the control plane.")] = 7300,
    engine_ports: Annotated[
        str, typer.Option(help="Ports of two serving engines and the trial one.")
    ] = "7401,7402,7409",
    rate: Annotated[float, typer.Option(help="Requests a second over the two serving nodes.")] = 6.0,
    seed: Annotated[int, typer.Option(help="Fixes the traffic.")] = 7,
) -> None:
    """Start a control plane, two serving nodes, a trial node and traffic; break production; watch it being mended."""
    extras.need("demo", "server", "agent", "engine", "tuner", "web")
    from controlplane.demo.plan import Plan
    from controlplane.demo.run import run_demo

    try:
        first, second, trial = (int(word) for word in engine_ports.split(","))
    except ValueError:
        fail(f"--engine-ports: wants three numbers such as 7401,7402,7409, got {engine_ports!r}")
    plan = Plan(
        data_dir=data_dir.absolute(),
        port=port,
        engine_ports=(first, second),
        trial_port=trial,
        rate=rate,
        seed=seed,
    )
    raise typer.Exit(run_demo(plan, once=once))
