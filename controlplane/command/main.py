"""`tailwright`: the command line. Every option also comes from the environment (TAILWRIGHT_COMMAND_OPTION, or the
shorter name its help shows) and from a TOML file (`--config FILE`, one table a command).

Each package owns its subcommands: `SUBCOMMANDS` says where, and a module is loaded when its command is called.
"""

from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup, TyperOption

from controlplane.client.named_proxy import checked_proxy
from controlplane.contract.errors import BadSettings, nearest
from controlplane.serving.tls import ClientFiles
from controlplane.terminal import checkout, extras
from controlplane.terminal.config_file import read_config
from controlplane.terminal.service_connection import CLIENT_FILES, PROXY, fail

SUBCOMMANDS = {
    "up": "controlplane.command.up",
    "demo": "agents.demo.command",
    "agent": "agents.agent.command",
    "engine": "agents.engine.command",
    "tune": "tuner.study.command",
    "replay": "tuner.replay.command",
    "traffic": "tuner.traffic.command",
    "rollout": "controlplane.command.rollout",
    "rollout-hooks": "controlplane.command.pools.hook_commands",
    "rollout-policies": "controlplane.command.nouns.policy_commands",
    "freezes": "controlplane.command.nouns.freeze_commands",
    "pins": "controlplane.command.nouns.pin_commands",
    "status": "controlplane.command.status",
    "open": "controlplane.command.open_dashboard",
    "export": "controlplane.command.export",
    "load": "controlplane.command.load.command",
    "store": "controlplane.command.store",
    "tls": "controlplane.command.certificates",
    "nodes": "controlplane.command.nouns.node_commands",
    "configs": "controlplane.command.nouns.config_commands",
    "quantiles": "controlplane.command.nouns.quantile_commands",
    "requests": "controlplane.command.nouns.request_commands",
    "plan": "controlplane.command.alerting.plan_command",
    "apply": "controlplane.command.alerting.apply_command",
    "alerting": "controlplane.command.alerting.alerting_commands",
    "alerts": "controlplane.command.nouns.alert_commands",
    "incidents": "controlplane.command.nouns.incident_commands",
    "rules": "controlplane.command.nouns.rule_commands",
    "silences": "controlplane.command.nouns.silence_commands",
    "routes": "controlplane.command.nouns.route_commands",
    "inhibit-rules": "controlplane.command.nouns.inhibit_rule_commands",
    "destinations": "controlplane.command.nouns.destination_commands",
    "studies": "controlplane.command.nouns.study_commands",
    "workloads": "tuner.workload.command",
    "prompts": "tuner.workload.prompts_command",
    "whatif": "controlplane.command.nouns.whatif_command",
    "hardware": "controlplane.command.pools.hardware_command",
    "advice": "controlplane.command.pools.advice_command",
    "profiles": "controlplane.command.nouns.profile_commands",
    "tokens": "controlplane.command.tokens",
    "people": "controlplane.command.people_sessions",
    "ledger": "controlplane.command.nouns.ledger_commands",
    "secrets": "controlplane.command.secret_keys",
    "doctor": "agents.doctor.command",
    "bench": "controlplane.command.bench",
}
"""Name to the module whose `app` it is."""


CaFile = Annotated[
    Path | None,
    typer.Option(
        help="PEM file of whom to trust as the control plane, and by doctor as vLLM; for all but up, agent and engine.",
        envvar="TAILWRIGHT_CA_FILE",
    ),
]
ClientCert = Annotated[
    Path | None, typer.Option(help="PEM file of a certificate to show it.", envvar="TAILWRIGHT_CLIENT_CERT")
]
ClientKey = Annotated[
    Path | None, typer.Option(help="PEM file of that certificate's key.", envvar="TAILWRIGHT_CLIENT_KEY")
]
Proxy = Annotated[
    str | None,
    typer.Option(
        help="URL of a proxy to reach it by on another machine; HTTP_PROXY and the like are not followed.",
        envvar="TAILWRIGHT_PROXY",
    ),
]


class Subcommands(TyperGroup):
    """The group of all of them."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(SUBCOMMANDS)

    def get_params(self, ctx: Any) -> list[Any]:
        """Those that act and leave have no variable: while it is set, no command would run."""
        found = super().get_params(ctx)
        for parameter in found:
            if isinstance(parameter, TyperOption) and parameter.callback is not None:
                parameter.allow_from_autoenv = False
        return found

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in SUBCOMMANDS:
            return None
        command = typer.main.get_command(extras.load(SUBCOMMANDS[cmd_name]).app)
        command.name = cmd_name
        return command

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args and args[0] not in SUBCOMMANDS and not args[0].startswith("-"):
            ctx.fail(f"no command {args[0]!r}, {nearest(args[0], list(SUBCOMMANDS))}")
        return super().resolve_command(ctx, args)


app = typer.Typer(
    name="tailwright",
    cls=Subcommands,
    help="The control plane beside an LLM serving fleet.",
    no_args_is_help=True,
    context_settings={"auto_envvar_prefix": "TAILWRIGHT", "help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # Its boxes cut the names of variables off in a narrow terminal.
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"tailwright {checkout.release()}")
        raise typer.Exit


@app.callback()
def settings(
    context: typer.Context,
    _: Annotated[bool, typer.Option("--version", help="Print the version.", callback=_version, is_eager=True)] = False,
    config: Annotated[
        Path | None, typer.Option(help="TOML file with one table per command.", envvar="TAILWRIGHT_CONFIG", exists=True)
    ] = None,
    ca_file: CaFile = None,
    client_cert: ClientCert = None,
    client_key: ClientKey = None,
    proxy: Proxy = None,
) -> None:
    wrong = checkout.foreign_packages()
    if wrong:
        fail(checkout.refusal(wrong))
    if config is not None:
        context.default_map = read_config(config, context)
    try:
        CLIENT_FILES.set(ClientFiles(ca_file, client_cert, client_key))
        PROXY.set(checked_proxy(proxy))
    except BadSettings as error:
        fail(error.message)


def main() -> None:
    app()


if __name__ == "__main__":
    main()
