"""`tailwright agent`: the agent beside one engine. Its settings, and their help, are the agent's own."""

import os

import typer

from controlplane.terminal import extras
from controlplane.terminal.subcommand import subcommand

app = subcommand()


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []})
def agent(context: typer.Context) -> None:
    """Stand beside one engine: count its timings, report them, apply its configuration."""
    extras.need("agent", "agent")
    from agents.agent.__main__ import main

    # The TOML table of `tailwright --config FILE` comes first, so that flags override it; the environment does too.
    given: list[str] = []
    for name, value in (context.default_map or {}).items():
        if f"TAILWRIGHT_{name.upper()}" not in os.environ:
            given += [f"--{name.replace('_', '-')}", str(value)]
    raise typer.Exit(main([*given, *context.args]))
