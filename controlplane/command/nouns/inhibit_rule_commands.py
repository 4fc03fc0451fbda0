"""`tailwright inhibit-rules`: what is not told while something else is."""

from typing import Annotated

import typer

from controlplane.client import Client
from controlplane.command.nouns.matched_labels import matched_text, silenced
from controlplane.contract.bodies.alerts import InhibitRule, InhibitRuleCreate
from controlplane.terminal.output.printing import Columns, Json, print_json, show_done, show_list
from controlplane.terminal.service_command import calls_service
from controlplane.terminal.subcommand import subcommand

app = subcommand(help="Inhibit rules: what is not told while something else is.", no_args_is_help=True)

COLUMNS: Columns[InhibitRule] = {
    "id": lambda rule: str(rule.id),
    "name": lambda rule: rule.name,
    "while": lambda rule: matched_text(rule.source),
    "not told": lambda rule: matched_text(rule.target),
    "equal": lambda rule: ", ".join(rule.equal) or "-",
    "file": lambda rule: rule.origin or "-",
}


@app.command("list")
@calls_service()
def listing(client: Client, as_json: Json = False) -> None:
    """Every inhibit rule, newest first."""
    show_list(client.inhibit_rules(), COLUMNS, as_json=as_json, what="inhibit rule")


@app.command("create")
@calls_service()
def create(
    client: Client,
    name: Annotated[str, typer.Argument(help="What people call it.")],
    source: Annotated[list[str], typer.Option(help="label=value of the alerts that say enough; repeat it.")] = [],  # noqa: B006 - typer needs a list default
    source_re: Annotated[list[str], typer.Option(help="The same as label=pattern.")] = [],  # noqa: B006
    target: Annotated[list[str], typer.Option(help="label=value of the alerts that are held back meanwhile.")] = [],  # noqa: B006
    target_re: Annotated[list[str], typer.Option(help="The same as label=pattern.")] = [],  # noqa: B006
    equal: Annotated[list[str], typer.Option(help="A label in which both agree; may be repeated.")] = ["pool"],  # noqa: B006
    anywhere: Annotated[
        bool, typer.Option("--anywhere", help="No such label: one holds back alerts of other pools, too.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Hold alerts back while others fire: ... create pages --source severity=page --target severity=ticket."""
    wanted = InhibitRuleCreate(
        name=name,
        source=silenced("--source", source, "--source-re", source_re),
        target=silenced("--target", target, "--target-re", target_re),
        equal=[] if anywhere else equal,
    )
    made = client.create_inhibit_rule(wanted)
    if as_json:
        print_json(made)
    else:
        said = f"while {matched_text(made.source)}, {matched_text(made.target)} is not told"
        typer.echo(f"inhibit rule {made.id} {made.name!r}: {said}")


@app.command("delete")
@calls_service()
def delete(
    client: Client, number: Annotated[int, typer.Argument(help="Its id, as the list shows it.")], as_json: Json = False
) -> None:
    """Delete an inhibit rule; what it held back and still fires is told then."""
    client.delete_inhibit_rule(number)
    show_done(f"inhibit rule {number} is deleted", as_json=as_json)
