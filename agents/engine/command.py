"""`tailwright engine`: the embedded torch engine's server alone."""

from dataclasses import replace
from typing import Annotated

import typer

from agents.engine.options import EngineOptions
from controlplane.contract.errors import TailwrightError
from controlplane.contract.knobs import parse_config
from controlplane.terminal import extras
from controlplane.terminal.assignments import parse_assignments
from controlplane.terminal.service_connection import fail
from controlplane.terminal.settings_options import with_settings
from controlplane.terminal.subcommand import subcommand

app = subcommand()


@app.command()
@with_settings("TAILWRIGHT_ENGINE_")
def engine(
    settings: EngineOptions,
    set_: Annotated[
        list[str],
        typer.Option(
            "--set", metavar="KNOB=VALUE", envvar="TAILWRIGHT_ENGINE_SET", help="A knob's first value; may be repeated."
        ),
    ] = [],  # noqa: B006
) -> None:
    """Serve a model over OpenAI-compatible HTTP, every knob changeable while it runs (GET and PUT /config)."""
    extras.need("engine", "engine")
    with extras.loading():
        from agents.engine.server.app import serve

    try:
        serve(replace(settings, config=parse_config(parse_assignments(set_), prefix="--set ")))
    except TailwrightError as error:
        fail(error.message)
