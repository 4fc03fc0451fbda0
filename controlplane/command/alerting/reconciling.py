"""What `plan` and `apply` share: the files read, the service asked, and what came of it told.

Guarantee: with status 2 `plan --detailed-exitcode` says that something would be changed, and nothing else: whatever is
wrong is status 1.
"""

from collections.abc import Callable, Sequence
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, NamedTuple, NoReturn

import typer
from pydantic import Field

from controlplane.client import Client
from controlplane.command.alerting.alerting_files import Declared, WrongFiles, read_files
from controlplane.command.alerting.plan_text import plan_lines
from controlplane.command.pools.pool_plan import PoolChanges, hooks_left, pool_lines
from controlplane.command.pools.pool_reconciling import carry_out, planned
from controlplane.contract.errors import BadRequest
from controlplane.contract.on_call.declared_alerting import AlertingChanges
from controlplane.terminal.output.printing import print_json
from controlplane.terminal.service_connection import fail

CHANGES = 2
"""The status of a plan with changes, as Terraform has it."""

Files = Annotated[list[Path] | None, typer.Argument(help="TOML files, or folders of them.", show_default=False)]
MoreFiles = Annotated[list[Path] | None, typer.Option("--file", "-f", help="The same as an option; may be repeated.")]
Prune = Annotated[bool, typer.Option("--prune", help="Remove what these files made before and lack now.")]
Again = Annotated[
    bool, typer.Option("--again", help="Propose a pool's configuration once more although a rollout of it went back.")
]
Commit = Annotated[
    str,
    typer.Option(
        envvar="TAILWRIGHT_COMMIT",
        help="Git's commit of the files: revision, rollout and ledger name it.",
        metavar="ID",
    ),
]


class Wanted(NamedTuple):
    """What `plan` and `apply` are asked for."""

    files: Sequence[Path] | None
    more: Sequence[Path] | None
    prune: bool
    again: bool
    commit: str


class Reconciled(AlertingChanges):
    """What the files change, of alerting and of pools. `changed` is of alerting and hooks alone."""

    pools: list[PoolChanges] = Field(default=[], description="of the pools that they declare")

    @property
    def anything(self) -> bool:
        return self.changed or any(one.changed for one in self.pools)


def reconciled(client: Client, wanted: Wanted, *, dry_run: bool) -> Reconciled:
    """Leaves with status 1 and a line for each thing that is wrong."""
    paths = [*(wanted.files or []), *(wanted.more or [])]
    if not paths:
        fail("say which files: FILE..., each a TOML file or a folder of them", 1)
    try:
        declared = read_files(paths)
    except WrongFiles as error:
        _refuse(error.problems)
    pools, problems = planned(client, declared.documents, again=wanted.again, commit=wanted.commit)
    if problems:
        _refuse(problems)
    # What alerting and hooks refuse is known before a pool is touched: it is whole or not at all.
    found = _alerting(client, declared, prune=wanted.prune, dry_run=dry_run)
    hooks = client.rollout_hooks() if pools else []
    for one in pools:
        one.changes.hooks_left = hooks_left(hooks, one.changes.pool, found.steps)
    if not dry_run:
        carry_out(client, pools)
    return Reconciled(**found.model_dump(), pools=[one.changes for one in pools])


def _alerting(client: Client, declared: Declared, *, prune: bool, dry_run: bool) -> AlertingChanges:
    try:
        return client.apply_alerting(declared.body(prune=prune, dry_run=dry_run))
    except BadRequest as error:
        _refuse(declared.told(error))


def _refuse(problems: Sequence[str]) -> NoReturn:
    fail("\n".join([*problems, "nothing was changed"]), 1)


def show(found: Reconciled, *, as_json: bool) -> None:
    if as_json:
        print_json(found)
        return
    for pool in found.pools:
        for line in pool_lines(pool, done=not found.dry_run):
            typer.echo(line)
    if found.steps or not found.pools:
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
