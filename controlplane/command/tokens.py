"""`tailwright token`: tokens of people and machines, made, listed and revoked by an admin's token."""

from datetime import datetime, timedelta
from typing import Annotated

import typer
from pydantic import ValidationError
from rich.console import Console
from rich.table import Table

from controlplane.contract.bodies.access import EXPIRES_IN_DAYS, EnrolmentRules, Scope, TokenCreate, TokenView
from controlplane.contract.clock import utc_now
from controlplane.terminal.service_connection import (
    FAILURES,
    SERVER,
    Server,
    Token,
    TokenFile,
    connect,
    explain,
    explain_values,
    fail,
)
from controlplane.terminal.subcommand import subcommand

app = subcommand(help="Tokens of people and machines: list, create, revoke.", no_args_is_help=True)

NEVER = "never"


@app.command("list")
def listing(
    ended: Annotated[bool, typer.Option(help="Show those that were revoked or have expired, too.")] = False,
    server: Server = SERVER,
    token: Token = None,
    token_file: TokenFile = None,
) -> None:
    """Every valid token, newest first: its scope, who answers for it, when it was last used and when it ends."""
    now = utc_now()
    table = Table("id", "name", "scope", "owner", "made", "last used", "ends")
    try:
        with connect(server, token, token_file) as client:
            for one in client.tokens():
                if ended or not _is_over(one, now):
                    used = "at its node" if one.node else day_text(one.last_used_at, "never")
                    owner = one.owner or ("its node" if one.node else "the service")
                    table.add_row(
                        str(one.id), one.name, one.scope, owner, day_text(one.created_at), used, ends_text(one)
                    )
    except FAILURES as error:
        fail(explain(error), 1)
    Console().print(table)


@app.command("create")
def create(
    name: Annotated[str, typer.Argument(help="Whose token it is; what the ledger names.")],
    scope: Annotated[Scope, typer.Option(help="What it allows.")],
    owner: Annotated[str | None, typer.Option(help="Who answers for it; default: the token that asks.")] = None,
    expires: Annotated[
        str, typer.Option(help=f"In how many days it ends, or {NEVER!r}.", metavar=f"DAYS|{NEVER}")
    ] = str(EXPIRES_IN_DAYS),
    uses: Annotated[int | None, typer.Option(help="Of scope enrol: how many nodes it registers at most.")] = None,
    pool: Annotated[
        list[str] | None, typer.Option(help="Of scope enrol: a pool it registers nodes in; repeat.")
    ] = None,
    role: Annotated[list[str] | None, typer.Option(help="Of scope enrol: a role it gives, serving or trial.")] = None,
    nodes: Annotated[
        str | None, typer.Option(help="Of scope enrol: the form of nodes' names, such as 'gpu-*'.")
    ] = None,
    server: Server = SERVER,
    token: Token = None,
    token_file: TokenFile = None,
) -> None:
    """Make a token. It is printed on standard output, alone, and shown nowhere else."""
    if expires != NEVER and not (expires.isascii() and expires.isdecimal()):
        fail(f"--expires: wants a number of days or {NEVER!r}, got {expires!r}")
    try:
        ends = None if expires == NEVER else utc_now() + timedelta(days=int(expires))
        given = {"uses": uses, "pools": pool or None, "roles": role or None, "nodes": nodes}
        rules = EnrolmentRules.model_validate(given) if any(given.values()) or uses == 0 else None
        wanted = TokenCreate(
            name=name, scope=scope, owner=owner, expires_at=ends, never_expires=ends is None, enrolment=rules
        )
    except ValidationError as error:
        fail(explain_values(error))
    except OverflowError:
        fail(f"--expires: {expires} days end after all calendars; {NEVER!r} is for ever")
    try:
        with connect(server, token, token_file) as client:
            made = client.create_token(wanted)
    except FAILURES as error:
        fail(explain(error), 1)
    typer.echo(f"token {made.id} {made.name!r}, scope {made.scope}, ends: {ends_text(made)}", err=True)
    typer.echo(made.token)


@app.command("revoke")
def revoke(
    number: Annotated[int, typer.Argument(help="Its id, as the list shows it.")],
    server: Server = SERVER,
    token: Token = None,
    token_file: TokenFile = None,
) -> None:
    """End a token, and the browser sessions that it has begun."""
    try:
        with connect(server, token, token_file) as client:
            client.revoke_token(number)
    except FAILURES as error:
        fail(explain(error), 1)
    typer.echo(f"token {number} is revoked")


def day_text(moment: datetime | None, otherwise: str = "") -> str:
    return otherwise if moment is None else f"{moment:%Y-%m-%d %H:%M}"


def ends_text(token: TokenView) -> str:
    if token.revoked_at is not None:
        return f"revoked {day_text(token.revoked_at)}"
    return day_text(token.expires_at, NEVER)


def _is_over(token: TokenView, now: datetime) -> bool:
    return token.revoked_at is not None or (token.expires_at is not None and token.expires_at <= now)
