"""`tailwright alerting export`: what is watched and who is told, as a file that `plan` and `apply` take.

Guarantee: while nothing changes there, a plan of it says "no changes", but for what another file made, which is this
one's then. What is secret is not in it: it is kept as it is.
"""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from controlplane.client import Client
from controlplane.contract.bodies.alerts import AlertRuleCreate, InhibitRuleCreate, Silence, SilenceCreate
from controlplane.contract.channels.destinations import Destination
from controlplane.contract.clock import utc_now
from controlplane.contract.errors import Conflict
from controlplane.contract.on_call.declared_alerting import DeclaredKind
from controlplane.contract.on_call.incidents import RouteCreate
from controlplane.terminal.output.toml_text import table_lines
from controlplane.terminal.service_command import calls_service
from controlplane.terminal.service_connection import fail
from controlplane.terminal.subcommand import subcommand

app = subcommand(help="Alerting as code: what is there as a file.", no_args_is_help=True)

HEAD = """\
# Alerting as it was when `tailwright alerting export` wrote this; `tailwright plan` says what an edit would change.
# Secrets are not here: url_kept and secret_kept leave those that are there. Where a destination is made anew, url_file
# or url_env, secret_file or secret_env say where they are (docs/alerting-as-code.md).
"""
OF_A_DESTINATION = (
    *("name", "kind", "login", "recipients", "sender", "per_minute", "only"),
    *("title_template", "text_template"),
)


@app.callback()
def alerting() -> None:
    """Alerting as code: what is there as a file."""


@app.command("export")
@calls_service()
def export(
    client: Client,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="File to write; default: standard output.")] = None,
) -> None:
    """Write rules, routes, inhibit rules, silences that last and destinations as TOML, without their secrets."""
    text = HEAD + "".join(f"\n{line}\n" if line.startswith("[[") else f"{line}\n" for line in lines_of(client))
    if out is None:
        typer.echo(text, nl=False)
        return
    try:
        out.write_text(text, encoding="utf-8")
    except OSError as error:
        fail(f"--out: {out} cannot be written: {error.strerror}", 1)


def lines_of(client: Client) -> Iterator[str]:
    """The oldest of each kind first. Raises `Conflict` where two things have one name, which no file can tell apart."""
    of_kinds: dict[DeclaredKind, Iterable[Mapping[str, Any]]] = {
        DeclaredKind.ALERT_RULE: (_wanted(one, AlertRuleCreate) for one in reversed(client.alert_rules())),
        DeclaredKind.ROUTE: (_wanted(one, RouteCreate) for one in reversed(client.routes())),
        DeclaredKind.INHIBIT_RULE: (_wanted(one, InhibitRuleCreate) for one in reversed(client.inhibit_rules())),
        DeclaredKind.SILENCE: (_wanted(one, SilenceCreate) for one in lasting(client.silences())),
        DeclaredKind.DESTINATION: (kept(one) for one in reversed(client.destinations())),
    }
    for kind, things in of_kinds.items():
        names: set[str] = set()
        for thing in things:
            name = thing.get("name")
            if name in names:
                words = kind.value.replace("_", " ")
                raise Conflict(f"two have the name {name!r}, a file tells each {words} by its name: rename one of them")
            names |= {name} if isinstance(name, str) else set()
            yield from table_lines(kind.value, thing)


def _wanted(one: Any, model: Any) -> Mapping[str, Any]:
    """What a person may say of it."""
    found: Mapping[str, Any] = one.model_dump(mode="json", include=set(model.model_fields))
    return found


def lasting(silences: Iterable[Silence]) -> list[Silence]:
    """Those that hold now, the oldest first; of several that match the same a file's, else the one that ends last."""
    now, found = utc_now(), dict[str, Silence]()
    held = [one for one in silences if one.ended_early_at is None and one.ends_at > now]
    for one in sorted(held, key=lambda silence: (silence.origin is not None, silence.ends_at, silence.id)):
        found[one.model_dump_json(include={"matchers", "patterns"})] = one
    return sorted(found.values(), key=lambda silence: silence.id)


def kept(one: Destination) -> Mapping[str, Any]:
    """A destination whose secrets stay as they are."""
    shown = {name: value for name, value in one.model_dump(mode="json").items() if name in OF_A_DESTINATION}
    secrets = {"url_kept": True, "secret_kept": one.signed, "callback_secret_kept": one.acknowledges}
    return {**shown, "enabled": one.enabled, **{name: True for name, is_there in secrets.items() if is_there}}
