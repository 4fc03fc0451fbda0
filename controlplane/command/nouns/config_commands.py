"""`tailwright configs`: revisions of configurations, what runs where, and how two of them differ."""

import shlex
from collections import Counter
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from controlplane.client import Client
from controlplane.command.pools.engine_arguments import Engine, arguments, patch, toml_text
from controlplane.command.pools.production import production_revision, serving
from controlplane.contract.bodies.configs import Revision, RevisionCreate
from controlplane.contract.reports.declared_knobs import between
from controlplane.terminal.assignments import parse_assignments
from controlplane.terminal.output.printing import (
    Columns,
    Json,
    labels_text,
    moment_text,
    print_json,
    print_table,
    show_list,
    show_record,
)
from controlplane.terminal.service_command import calls_service
from controlplane.terminal.service_connection import fail
from controlplane.terminal.subcommand import subcommand

app = subcommand(help="Configuration revisions: what runs where, and what differs.", no_args_is_help=True)

Number = Annotated[int, typer.Argument(help="The revision's number.")]


@app.command("list")
@calls_service()
def listing(client: Client, as_json: Json = False) -> None:
    """Every revision, newest first, with the nodes that run it."""
    running = Counter((node.effective.revision, node.pool) for node in client.nodes() if node.effective is not None)
    columns: Columns[Revision] = {
        "revision": lambda one: str(one.number),
        "runs on": lambda one: (
            labels_text({pool: str(count) for (number, pool), count in sorted(running.items()) if number == one.number})
            or "-"
        ),
        "made": lambda one: moment_text(one.created_at),
        "by": lambda one: one.created_by,
        "note": lambda one: one.note or "-",
        "knobs": lambda one: labels_text(one.knobs.knobs()),
    }
    show_list(client.configs(), columns, as_json=as_json, what="revision")


@app.command("show")
@calls_service()
def show(client: Client, number: Number, as_json: Json = False) -> None:
    """One revision with all its knobs."""
    show_record(client.config(number), as_json=as_json)


@app.command("diff")
@calls_service()
def diff(
    client: Client,
    old: Annotated[int, typer.Argument(help="A revision's number.")],
    new: Annotated[int, typer.Argument(help="Another's.")],
    as_json: Json = False,
) -> None:
    """The knobs that differ between two revisions."""
    before, after = client.config(old), client.config(new)
    found = between(before.knobs.knobs(), after.knobs.knobs())
    if as_json:
        bodies = {"old": before.model_dump(mode="json"), "new": after.model_dump(mode="json")}
        print_json({**bodies, "differences": {name: {"old": a, "new": b} for name, (a, b) in found.items()}})
    elif not found:
        typer.echo(f"revisions {old} and {new} have the same knobs")
    else:
        rows = [(name, str(one), str(other)) for name, (one, other) in found.items()]
        print_table(("knob", f"revision {old}", f"revision {new}"), rows)


@app.command("create")
@calls_service()
def create(
    client: Client,
    knobs: Annotated[list[str], typer.Argument(help="knob=value; the other knobs are the base's.")],
    base: Annotated[int | None, typer.Option(help="The revision below; default: the engine's own values.")] = None,
    note: Annotated[str, typer.Option(help="Why, for people.")] = "",
    as_json: Json = False,
) -> None:
    """Make a revision, or find the one with equal knobs. It runs nowhere until `tailwright rollout start`."""
    made = client.create_config(RevisionCreate(knobs=parse_assignments(knobs), base=base, note=note))
    if as_json:
        print_json(made)
    else:
        typer.echo(f"revision {made.number}: {labels_text(made.knobs.knobs())}")


class As(StrEnum):
    """How `export` writes a configuration."""

    TOML = "toml"
    ARGS = "args"
    PATCH = "patch"


@app.command("export")
@calls_service()
def export(
    client: Client,
    pool: Annotated[str, typer.Option(help="The pool whose configuration it is.")],
    revision: Annotated[int | None, typer.Option(help="Another revision than the one it runs.")] = None,
    form: Annotated[As, typer.Option("--as", help="A pool's file, the engine's arguments, or a patch.")] = As.TOML,
    engine: Annotated[Engine | None, typer.Option(help="Whose arguments; default: the pool's own engine.")] = None,
    against: Annotated[Path | None, typer.Option(help="The file to patch, such as a manifest.")] = None,
) -> None:
    """A pool's configuration for Git: a file for `tailwright apply`, an engine's arguments, or a patch of them."""
    nodes = serving(client.nodes(), pool)
    number = revision or production_revision(nodes, pool)
    if number is None:
        fail(f"--pool: {pool!r} has no serving node whose revision is known; name one by --revision")
    knobs = client.config(number).knobs.knobs()
    if form is As.TOML:
        hooks = [one for one in reversed(client.rollout_hooks()) if one.pool == pool]
        typer.echo(toml_text(pool, knobs, hooks), nl=False)
    elif form is As.ARGS:
        whose = engine or (Engine.VLLM if any(node.backend == "vllm" for node in nodes) else Engine.EMBEDDED)
        typer.echo(shlex.join(arguments(knobs, whose)))
    elif against is None:
        fail("--against: a patch is of a file; name it")
    else:
        try:
            text = against.read_text(encoding="utf-8")
        except (OSError, ValueError) as error:
            fail(f"--against: {against} cannot be read: {getattr(error, 'strerror', None) or 'not text'}")
        found, missing = patch(text, str(against).lstrip("/"), knobs)
        typer.echo(found, nl=False)
        if missing:
            typer.echo(f"{against} does not name {', '.join(missing)}", err=True)
