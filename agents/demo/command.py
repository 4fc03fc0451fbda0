"""`tailwright demo`: the whole loop on this machine."""

from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from agents.backends.vllm.doctor.installation import VARIABLE, default_executable
from controlplane.terminal import extras
from controlplane.terminal.service_connection import fail
from controlplane.terminal.subcommand import subcommand


class Engine(StrEnum):
    """What serves in the demo."""

    EMBEDDED = "embedded"
    VLLM = "vllm"


app = subcommand()


@app.command()
def demo(
    once: Annotated[
        bool, typer.Option("--once", help="End after the story; status 0 only if every step happened.")
    ] = False,
    engine: Annotated[Engine, typer.Option(help="Tailwright's own engine, or real vLLM servers (CPU build).")] = (
        Engine.EMBEDDED
    ),
    vllm: Annotated[
        Path | None,
        typer.Option(
            help="Executable of vLLM's environment, with the plugin in it (make vllm builds one). "
            f"Default: bin/vllm in .venv-vllm of the checkout, or in {VARIABLE}."
        ),
    ] = None,
    data_dir: Annotated[Path, typer.Option(help="Emptied at the start.")] = Path(".tailwright/demo"),
    port: Annotated[int, typer.Option(help="Port of the control plane.")] = 7300,
    engine_ports: Annotated[
        str, typer.Option(help="Ports of two serving engines and the trial one.")
    ] = "7401,7402,7409",
    rate: Annotated[
        float | None,
        typer.Option(
            help="Requests a second over the two serving nodes. Default: 6, with vLLM 5, or 3 on busy cores.", min=0.1
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Fixes the traffic.")] = 7,
    patience: Annotated[
        float, typer.Option(help="Multiplies every limit of time, for a slow or busy machine.", min=0.1)
    ] = 1.0,
) -> None:
    """Start a control plane, two serving nodes, a trial node and traffic; break production; watch it being mended."""
    needed = (
        ("server", "agent", "tuner", "web") if engine is Engine.VLLM else ("server", "agent", "engine", "tuner", "web")
    )
    extras.need("demo", *needed)
    from agents.demo.plan import Plan
    from agents.demo.run import run_demo

    try:
        first, second, trial = (int(word) for word in engine_ports.split(","))
    except ValueError:
        fail(f"--engine-ports: wants three numbers such as 7401,7402,7409, got {engine_ports!r}")
    if vllm is not None and engine is not Engine.VLLM:
        fail("--vllm: only with --engine vllm")
    plan = Plan() if engine is Engine.EMBEDDED else Plan.on_vllm((vllm or default_executable()).absolute())
    if rate is not None:
        plan = replace(plan, rate=rate, busy_rate=rate)
    plan = replace(
        plan.patient(patience),
        data_dir=data_dir.absolute(),
        port=port,
        engine_ports=(first, second),
        trial_port=trial,
        seed=seed,
    )
    raise typer.Exit(run_demo(plan, once=once))
