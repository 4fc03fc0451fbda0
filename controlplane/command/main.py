"""`trimtab`: the command line. Every option also comes from the environment (TRIMTAB_COMMAND_OPTION, or the shorter
name its help shows) and from a TOML file (`--config FILE`, one table a command)."""

from pathlib import Path
from typing import Annotated

import typer

from controlplane.command import (
    agent,
    bench,
    checkout,
    doctor,
    engine,
    export,
    replay,
    rollout,
    status,
    store,
    tune,
    up,
)
from controlplane.command.config_file import read_config
from controlplane.command.connection import fail
from controlplane.command.demo import command as demo
from controlplane.command.load import command as load

app = typer.Typer(
    name="trimtab",
    help="The control plane beside an LLM serving fleet.",
    no_args_is_help=True,
    context_settings={"auto_envvar_prefix": "TRIMTAB", "help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # Its boxes cut the names of variables off in a narrow terminal.
)
app.command("up")(up.up)
app.command("demo")(demo.demo)
app.command(
    "agent",
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []},
)(agent.agent)
app.command("engine")(engine.engine)
app.command("tune")(tune.tune)
app.command("replay")(replay.replay)
app.add_typer(rollout.app, name="rollout")
app.command("status")(status.status)
app.command("export")(export.export)
app.command("load")(load.load)
app.add_typer(store.app, name="store")
app.add_typer(doctor.app, name="doctor")
app.command("bench")(bench.bench)


@app.callback()
def settings(
    context: typer.Context,
    config: Annotated[
        Path | None, typer.Option(help="TOML file with one table per command.", envvar="TRIMTAB_CONFIG", exists=True)
    ] = None,
) -> None:
    wrong = checkout.foreign_packages()
    if wrong:
        fail(checkout.refusal(wrong))
    if config is not None:
        context.default_map = read_config(config, context.command)


def main() -> None:
    app()


if __name__ == "__main__":
    main()
