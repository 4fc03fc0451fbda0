"""`tailwright tokens`: tokens of people and machines, made, listed and revoked by an admin's token."""

from datetime import datetime, timedelta
from typing import Annotated

import typer
from pydantic import ValidationError

from controlplane.client import Client
from controlplane.contract.bodies.access import EXPIRES_IN_DAYS, EnrolmentRules, Scope, TokenCreate, TokenView
from controlplane.contract.clock import utc_now
from controlplane.contract.errors import NotFound
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
from controlplane.terminal.service_connection import explain_values, fail
from controlplane.terminal.subcommand import subcommand

app = subcommand(help="Tokens of people and machines: list, create, revoke.", no_args_is_help=True)

NEVER = "never"

Number = Annotated[int, typer.Argument(help="Its id, as the list shows it.")]

COLUMNS: Columns[TokenView] = {
    "id": lambda token: str(token.id),
    "name": lambda token: token.name,
    "scope": lambda token: token.scope.value,
    "owner": lambda token: token.owner or ("its node" if token.node else "the service"),
    "made": lambda token: moment_text(token.created_at),
    "last used": lambda token: "at its node" if token.node else moment_text(token.last_used_at, "never"),
    "ends": lambda token: ends_text(token),
}


@app.command("list")
@calls_service()
def listing(
    client: Client,
    ended: Annotated[bool, typer.Option(help="Show those that were revoked or have expired, too.")] = False,
    as_json: Json = False,
) -> None:
    """Every valid token, newest first: its scope, who answers for it, when it was last used and when it ends."""
    now = utc_now()
    found = [token for token in client.tokens() if ended or not _is_over(token, now)]
    show_list(found, COLUMNS, as_json=as_json, what="token")


@app.command("show")
@calls_service()
def show(client: Client, number: Number, as_json: Json = False) -> None:
    """One token, without its secret, which nobody can show again."""
    found = next((token for token in client.tokens() if token.id == number), None)
    if found is None:
        raise NotFound(f"no token {number}")
    show_record(found, as_json=as_json)


@app.command("create")
@calls_service()
def create(
    client: Client,
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
    as_json: Json = False,
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
    made = client.create_token(wanted)
    if as_json:
        print_json(made)
        return
    typer.echo(f"token {made.id} {made.name!r}, scope {made.scope}, ends: {ends_text(made)}", err=True)
    typer.echo(made.token)


@app.command("revoke")
@calls_service()
def revoke(client: Client, number: Number, as_json: Json = False) -> None:
    """End a token, and the browser sessions that it has begun."""
    client.revoke_token(number)
    show_done(f"token {number} is revoked", as_json=as_json)


def ends_text(token: TokenView) -> str:
    if token.revoked_at is not None:
        return f"revoked {moment_text(token.revoked_at)}"
    return moment_text(token.expires_at, NEVER)


def _is_over(token: TokenView, now: datetime) -> bool:
    return token.revoked_at is not None or (token.expires_at is not None and token.expires_at <= now)
