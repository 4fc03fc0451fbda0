"""How a command reaches a service: its URL, and a token from an option, the environment or a file."""

import time
from collections.abc import Callable
from contextvars import ContextVar
from pathlib import Path
from typing import Annotated, NoReturn, TypeVar

import httpx
import typer
from pydantic import ValidationError

from controlplane.client import Client
from controlplane.contract.errors import BadSettings, TailwrightError, Unavailable
from controlplane.serving.tls import ClientFiles, ClientTls

Answer = TypeVar("Answer")

Server = Annotated[str, typer.Option(envvar="TAILWRIGHT_SERVER_URL", help="Base URL of the control plane.")]
Token = Annotated[str | None, typer.Option(envvar="TAILWRIGHT_TOKEN", help="Bearer token.")]
TokenFile = Annotated[
    Path | None, typer.Option(envvar="TAILWRIGHT_TOKEN_FILE", help="File that holds the bearer token.", dir_okay=False)
]
SERVER = "http://127.0.0.1:7300"

CLIENT_FILES: ContextVar[ClientFiles] = ContextVar("CLIENT_FILES", default=ClientFiles())  # noqa: B039 - Frozen.
"""What `tailwright` itself was given, before the command's name."""

AWAY_S = 60
"""How long a command that waits for an end bears with a service that does not answer."""

FAILURES = (TailwrightError, httpx.HTTPError, ValidationError)
"""What a command that calls the service answers with one line, not with a trace."""


def read_token(token: str | None, token_file: Path | None) -> str:
    """The token itself. Leaves with status 2 and a hint when there is none."""
    if token:
        return token
    if token_file is None:
        fail("a token is needed: --token, --token-file, TAILWRIGHT_TOKEN or TAILWRIGHT_TOKEN_FILE")
    if not token_file.is_file():
        fail(f"--token-file: {token_file} is not a file")
    return token_file.read_text().strip()


def connect(server: str, token: str | None, token_file: Path | None, *, timeout_s: float = 10.0) -> Client:
    """With the certificates that `tailwright` itself was given. Leaves with status 2 where they cannot be used."""
    files = CLIENT_FILES.get()
    try:
        tls = ClientTls(files).context if files.any else None
    except BadSettings as error:
        fail(error.message)
    return Client(server, read_token(token, token_file), timeout_s=timeout_s, tls=tls)


def persistently(look: Callable[[], Answer]) -> Answer:
    """Look again while the service does not answer: whoever waits for an end outlives the service's restart."""
    give_up_at = time.monotonic() + AWAY_S
    while True:
        try:
            return look()
        except (httpx.TransportError, Unavailable):
            if time.monotonic() > give_up_at:
                raise
            time.sleep(1)


def fail(message: str, status: int = 2) -> NoReturn:
    """Say what is wrong on standard error and leave."""
    typer.echo(message, err=True)
    raise typer.Exit(status)


def explain(error: Exception) -> str:
    """One line for a failed call."""
    if isinstance(error, TailwrightError):
        return f"{error.status} {error.code}: {error.message}"
    if isinstance(error, httpx.HTTPError):
        return f"the control plane does not answer: {error}"
    if isinstance(error, ValidationError):
        return explain_values(error)
    return str(error)


def explain_values(error: ValidationError) -> str:
    """One line for values that a request cannot hold: each field, and what it wants."""
    found = error.errors(include_url=False, include_input=False)
    return "; ".join(f"{'.'.join(str(part) for part in item['loc'])}: {item['msg']}" for item in found)
