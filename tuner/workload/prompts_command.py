"""`tailwright prompts`: prompts of one's own that the service keeps under a name, for studies to replay."""

from pathlib import Path
from typing import Annotated

import typer

from controlplane.client import Client
from controlplane.contract.bodies.workload import KeptPromptSet, PromptSetCreate
from controlplane.contract.errors import BadRequest
from controlplane.contract.planning.packed_prompts import packed_prompts
from controlplane.terminal.bodies.contract_options import body_of
from controlplane.terminal.output.printing import (
    Columns,
    Json,
    moment_text,
    print_json,
    show_done,
    show_list,
    show_record,
)
from controlplane.terminal.service_command import calls_service
from controlplane.terminal.service_connection import fail
from controlplane.terminal.subcommand import subcommand
from tuner.workload.packed_size import refuse_too_large
from tuner.workload.prompt_file import read_prompts

app = subcommand(help="Prompts of one's own, kept under a name for studies to replay.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(help="Its name, as the list shows it.")]

NAMED = {"name": "NAME", "prompts": "--file"}

COLUMNS: Columns[KeptPromptSet] = {
    "name": lambda one: one.name,
    "prompts": lambda one: f"{one.figures.prompts:,}",
    "characters p50/p95/p99": lambda one: "/".join(map(str, one.figures.characters.values())),
    "with max_tokens": lambda one: f"{one.figures.with_max_tokens:,}",
    "added": lambda one: moment_text(one.created_at),
    "by": lambda one: one.created_by,
}


@app.command("list")
@calls_service()
def listing(client: Client, as_json: Json = False) -> None:
    """Every prompt set that is kept, newest first."""
    show_list(client.prompt_sets(), COLUMNS, as_json=as_json, what="prompt set")


@app.command("show")
@calls_service()
def show(client: Client, name: Name, as_json: Json = False) -> None:
    """What one is like; its text is not shown."""
    show_record(client.prompt_set(name), as_json=as_json)


@app.command("add")
@calls_service()
def add(
    client: Client,
    name: Annotated[str, typer.Argument(help="What studies will call it.")],
    file: Annotated[
        Path,
        typer.Option(
            help="A JSON object a line with prompt and maybe max_tokens, or ShareGPT's JSON; its text is sent and kept "
            "encrypted.",
            exists=True,
            dir_okay=False,
        ),
    ],
    prompts: Annotated[int | None, typer.Option(help="Only its first so many prompts.", min=1)] = None,
    as_json: Json = False,
) -> None:
    """Keep a file's prompts under a name: tailwright prompts add support --file prompts.jsonl."""
    try:
        found = read_prompts(file)[:prompts]
    except BadRequest as error:
        fail(f"--file: {error.message}", 1)
    packed = packed_prompts(found)
    refuse_too_large(packed, "--prompts")
    made = client.add_prompt_set(body_of(PromptSetCreate, {"name": name, "prompts": packed}, NAMED))
    if as_json:
        print_json(made)
        return
    middle = made.figures.characters["p50"]
    typer.echo(f"prompt set {made.name}: {made.figures.prompts:,} prompts, half of them of up to {middle:,} characters")


@app.command("remove")
@calls_service()
def remove(client: Client, name: Name, as_json: Json = False) -> None:
    """Forget one. A study that names it and is not over will fail."""
    client.remove_prompt_set(name)
    show_done(f"prompt set {name} is removed", as_json=as_json)
