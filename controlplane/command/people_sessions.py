"""`tailwright people`: who has signed in, and the open sessions of browsers, which an admin's token ends."""

from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from controlplane.command.tokens import day_text
from controlplane.terminal.service_connection import FAILURES, SERVER, Server, Token, TokenFile, connect, explain, fail
from controlplane.terminal.subcommand import subcommand

app = subcommand(help="People who have signed in, and open sessions.", no_args_is_help=True)


@app.command("list")
def listing(server: Server = SERVER, token: Token = None, token_file: TokenFile = None) -> None:
    """People by their last sign-in, and every open session."""
    people = Table("id", "name", "role", "last sign-in", "open sessions", title="People", title_justify="left")
    sessions = Table("id", "who", "may", "began", "last used", "from", title="Open sessions", title_justify="left")
    try:
        with connect(server, token, token_file) as client:
            for one in client.people():
                signed_in = day_text(one.signed_in_at)
                people.add_row(str(one.id), one.name, one.role, signed_in, str(one.open_sessions))
            for each in client.sessions():
                who = each.name if each.token_id is None else f"{each.name} (token {each.token_id})"
                times = day_text(each.started_at), day_text(each.used_at)
                sessions.add_row(str(each.id), who, each.scope, *times, each.address or "")
    except FAILURES as error:
        fail(explain(error), 1)
    Console().print(people, sessions)


@app.command("end-session")
def end_session(
    number: Annotated[int, typer.Argument(help="Its id, as the list shows it.")],
    server: Server = SERVER,
    token: Token = None,
    token_file: TokenFile = None,
) -> None:
    """End one browser's session; the person may sign in again while the issuer says so."""
    try:
        with connect(server, token, token_file) as client:
            client.end_one_session(number)
    except FAILURES as error:
        fail(explain(error), 1)
    typer.echo(f"session {number} is ended")
