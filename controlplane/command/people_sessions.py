"""`tailwright people`: who has signed in, and the open sessions of browsers, which an admin's token ends."""

from typing import Annotated

import typer

from controlplane.client import Client
from controlplane.contract.bodies.people import Person, SessionView
from controlplane.terminal.output.printing import Columns, Json, moment_text, print_json, show_done, show_list
from controlplane.terminal.service_command import calls_service
from controlplane.terminal.subcommand import subcommand

app = subcommand(help="People who have signed in, and open sessions of browsers.", no_args_is_help=True)

PEOPLE: Columns[Person] = {
    "id": lambda person: str(person.id),
    "name": lambda person: person.name,
    "role": lambda person: person.role,
    "last sign-in": lambda person: moment_text(person.signed_in_at),
    "open sessions": lambda person: str(person.open_sessions),
}
SESSIONS: Columns[SessionView] = {
    "id": lambda session: str(session.id),
    "who": lambda session: session.name if session.token_id is None else f"{session.name} (token {session.token_id})",
    "may": lambda session: session.scope,
    "began": lambda session: moment_text(session.started_at),
    "last used": lambda session: moment_text(session.used_at),
    "from": lambda session: session.address or "-",
}


Number = Annotated[int, typer.Argument(help="The person's id, as `tailwright people list` shows it.")]


@app.command("list")
@calls_service()
def listing(client: Client, as_json: Json = False) -> None:
    """People by their last sign-in."""
    show_list(client.people(), PEOPLE, as_json=as_json, what="person")


@app.command("export")
@calls_service()
def export(client: Client, number: Number) -> None:
    """All that is kept of a person, as JSON: the row, open sessions, and every entry of the ledger that is theirs."""
    print_json(client.personal_data(number).model_dump(mode="json", exclude={"next"}))


@app.command("forget")
@calls_service()
def forget(client: Client, number: Number, as_json: Json = False) -> None:
    """Remove what is kept of a person, and end the sessions; the ledger keeps its entries until they are archived."""
    client.forget_person(number)
    show_done(f"person {number} is forgotten", as_json=as_json)


@app.command("sessions")
@calls_service()
def sessions(client: Client, as_json: Json = False) -> None:
    """Every open session of a browser."""
    show_list(client.sessions(), SESSIONS, as_json=as_json, what="open session")


@app.command("end-session")
@calls_service()
def end_session(
    client: Client,
    number: Annotated[int, typer.Argument(help="Its id, as `tailwright people sessions` shows it.")],
    as_json: Json = False,
) -> None:
    """End one browser's session; the person may sign in again while the issuer says so."""
    client.end_one_session(number)
    show_done(f"session {number} is ended", as_json=as_json)
