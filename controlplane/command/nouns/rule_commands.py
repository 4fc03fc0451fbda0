"""`tailwright rules`: what is watched, and what the service does by itself; written as TOML or JSON."""

from typing import Annotated, Any

import typer

from controlplane.client import Client
from controlplane.command.nouns.rule_trials import rules_of, show_backtest, show_trial, tried
from controlplane.contract.bodies.alerts import AlertRule
from controlplane.contract.errors import NotFound
from controlplane.terminal.document_file import DocumentFile, read_document
from controlplane.terminal.output.printing import Columns, Json, print_json, show_done, show_list, show_record
from controlplane.terminal.service_command import calls_service
from controlplane.terminal.subcommand import subcommand
from controlplane.terminal.time_options import End, length_s, moment

app = subcommand(help="Alert rules: what is watched.", no_args_is_help=True)

Number = Annotated[int, typer.Argument(help="Its id, as the list shows it.")]

COLUMNS: Columns[AlertRule] = {
    "id": lambda rule: str(rule.id),
    "name": lambda rule: rule.name,
    "pool": lambda rule: rule.pool or "every",
    "kind": lambda rule: rule.condition.kind,
    "severity": lambda rule: rule.severity.value,
    "enabled": lambda rule: "yes" if rule.enabled else "no",
    "remedy": lambda rule: "-" if rule.remedy is None else rule.remedy.policy.value,
    "file": lambda rule: rule.origin or "-",
}
KEPT_BY_THE_SERVICE = ("id", "created_at", "origin")


@app.command("list")
@calls_service()
def listing(client: Client, as_json: Json = False) -> None:
    """Every rule, newest first."""
    show_list(client.alert_rules(), COLUMNS, as_json=as_json, what="rule")


@app.command("show")
@calls_service()
def show(client: Client, number: Number, as_json: Json = False) -> None:
    """One rule. What --json prints may be changed and given to `update`."""
    found = next((rule for rule in client.alert_rules() if rule.id == number), None)
    if found is None:
        raise NotFound(f"no alert rule {number}")
    show_record(found, as_json=as_json)


@app.command("create")
@calls_service()
def create(client: Client, file: DocumentFile, as_json: Json = False) -> None:
    """Make a rule of a file such as: name = "slow", pool = "chat", [condition], kind = "regression"."""
    _tell(client.create_alert_rule(read_document(file)), "made", as_json)


@app.command("update")
@calls_service()
def update(client: Client, number: Number, file: DocumentFile, as_json: Json = False) -> None:
    """Replace a rule by what a file says, whole: a field that is left out takes its default."""
    _tell(client.update_alert_rule(number, _wanted(read_document(file))), "replaced", as_json)


@app.command("delete")
@calls_service()
def delete(client: Client, number: Number, as_json: Json = False) -> None:
    """Delete a rule; its open alerts are resolved."""
    client.delete_alert_rule(number)
    show_done(f"rule {number} is deleted", as_json=as_json)


@app.command("dry-run")
@calls_service()
def dry_run(
    client: Client,
    file: DocumentFile,
    window: Annotated[str, typer.Option(help="How far back from --end, e.g. 12h or 7d.")] = "7d",
    end: End = None,
    as_json: Json = False,
) -> None:
    """When the rule of a file would have fired; of a file with [[alert_rule]] tables, how often each."""
    rules, window_s, until = rules_of(read_document(file)), length_s("window", window), moment("end", end)
    found = [tried(client, _wanted(rule), window_s, None if until is None else until.isoformat()) for rule in rules]
    if as_json:
        print_json(found[0] if len(found) == 1 else {"items": [one.model_dump(mode="json") for one in found]})
    elif len(found) == 1:
        show_trial(rules[0], found[0])
    else:
        show_backtest(rules, found)


def _wanted(document: dict[str, Any]) -> dict[str, Any]:
    """Without what `show --json` tells beside what can be wanted."""
    return {name: value for name, value in document.items() if name not in KEPT_BY_THE_SERVICE}


def _tell(rule: AlertRule, done: str, as_json: bool) -> None:
    if as_json:
        print_json(rule)
    else:
        typer.echo(f"rule {rule.id} {rule.name!r} is {done}")
