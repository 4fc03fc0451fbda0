"""How a command reaches a service: its URL, and a token from an option, the environment or a file."""

from pathlib import Path
from typing import Annotated, NoReturn

import httpx
import typer

from controlplane.client import Client
from controlplane.contract.errors import TrimtabError

Server = Annotated[str, typer.Option(envvar="TRIMTAB_SERVER_URL", help="Base URL of the control plane.")]
Token = Annotated[str | None, typer.Option(envvar="TRIMTAB_TOKEN", help="Bearer token.")]
TokenFile = Annotated[
    Path | None, typer.Option(envvar="TRIMTAB_TOKEN_FILE", help="File that holds the bearer token.", dir_okay=False)
]
SERVER = "http://127.0.0.1:7300"


def read_token(token: str | None, token_file: Path | None) -> str:
    """The token itself. Leaves with status 2 and a hint when there is none."""
    if token:
        return token
    if token_file is None:
        fail("a token is needed: --token, --token-file, TRIMTAB_TOKEN or TRIMTAB_TOKEN_FILE")
    if not token_file.is_file():
        fail(f"--token-file: {token_file} is not a file")
    return token_file.read_text().strip()


def connect(server: str, token: str | None, token_file: Path | None) -> Client:
    return Client(server, read_token(token, token_file))


def fail(message: str, status: int = 2) -> NoReturn:
    """Say what is wrong on standard error and leave."""
    typer.echo(message, err=True)
    raise typer.Exit(status)


def explain(error: Exception) -> str:
    """One line for a failed call."""
    if isinstance(error, TrimtabError):
        return f"{error.status} {error.code}: {error.message}"
    if isinstance(error, httpx.HTTPError):
        return f"the control plane does not answer: {error}"
    return str(error)
