"""`tailwright configs`: revisions of configurations, what runs where, and how two of them differ."""

from collections import Counter
from typing import Annotated

import typer

from controlplane.client import Client
from controlplane.contract.bodies.configs import Revision, RevisionCreate
from controlplane.contract.knobs import difference
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
    found = difference(before.knobs.knobs(), after.knobs.knobs(), unreported=True)
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
