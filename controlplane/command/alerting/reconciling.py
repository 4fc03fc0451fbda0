"""What `plan` and `apply` share: the files read, the service asked, and what came of it told.

Guarantee: with status 2 `plan --detailed-exitcode` says that something would be changed, and nothing else: whatever is
wrong is status 1.
"""

from collections.abc import Callable, Sequence
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from controlplane.client import Client
from controlplane.command.alerting.alerting_files import WrongFiles, read_files
from controlplane.command.alerting.plan_text import plan_lines
from controlplane.contract.errors import BadRequest
from controlplane.contract.on_call.declared_alerting import AlertingChanges
from controlplane.terminal.output.printing import print_json
from controlplane.terminal.service_connection import fail

CHANGES = 2
"""The status of a plan with changes, as Terraform has it."""

Files = Annotated[list[Path] | None, typer.Argument(help="TOML files, or folders of them.", show_default=False)]
MoreFiles = Annotated[list[Path] | None, typer.Option("--file", "-f", help="The same as an option; may be repeated.")]
Prune = Annotated[bool, typer.Option("--prune", help="Remove what these files made before and lack now.")]


def reconciled(
    client: Client, files: Sequence[Path] | None, more: Sequence[Path] | None, *, prune: bool, dry_run: bool
) -> AlertingChanges:
    """Leaves with status 1 and a line for each thing that is wrong."""
    paths = [*(files or []), *(more or [])]
    if not paths:
        fail("say which files: FILE..., each a TOML file or a folder of them", 1)
    try:
        declared = read_files(paths)
    except WrongFiles as error:
        _refuse(error.problems)
    try:
        return client.apply_alerting(declared.body(prune=prune, dry_run=dry_run))
    except BadRequest as error:
        _refuse(declared.told(error))


def _refuse(problems: Sequence[str]) -> NoReturn:
    fail("\n".join([*problems, "nothing was changed"]), 1)


def show(found: AlertingChanges, *, as_json: bool) -> None:
    if as_json:
        print_json(found)
        return
    for line in plan_lines(found):
        typer.echo(line)


def wrong_is_one(command: Callable[..., bool]) -> Callable[..., None]:
    """Decorator: the command answers whether its status says changes; every other status but 0 becomes 1."""

    @wraps(command)
    def called(*arguments: Any, **values: Any) -> None:
        try:
            says_changes = command(*arguments, **values)
        except typer.Exit as left:
            raise typer.Exit(1 if left.exit_code else 0) from None
        if says_changes:
            raise typer.Exit(CHANGES)

    return called
