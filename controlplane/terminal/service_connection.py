"""How a command reaches a service, waits for one that restarts, and says in one line what went wrong."""

import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from types import MappingProxyType
from typing import NoReturn, TypeVar

import httpx
import typer
from pydantic import ValidationError

from controlplane.client import Client
from controlplane.client.bearer_file import BearerFile
from controlplane.contract.errors import BadSettings, TailwrightError, Unavailable
from controlplane.contract.mistake_text import mistake_text, place_of
from controlplane.contract.shown_url import address
from controlplane.serving.tls import ClientFiles, ClientTls
from controlplane.terminal.service_choice import Choice

Answer = TypeVar("Answer")

CLIENT_FILES: ContextVar[ClientFiles] = ContextVar("CLIENT_FILES", default=ClientFiles())  # noqa: B039 - Frozen.
"""What `tailwright` itself was given, before the command's name."""

PROXY: ContextVar[str | None] = ContextVar("PROXY", default=None)
"""Likewise: the proxy by which services on other machines are reached."""

TIMEOUT_S = 10.0

AWAY_S = 60
"""How long a command that waits for an end bears with a service that does not answer."""

FAILURES = (TailwrightError, httpx.HTTPError, ValidationError)
"""What a command that calls the service answers with one line, not with a trace."""


@contextmanager
def reaching(choice: Choice, *, timeout_s: float = TIMEOUT_S) -> Iterator[Client]:
    """The service. Leaves with status 2 where it cannot be spoken to as it was asked for, with 1 where it refuses or
    does not answer, each with a line on standard error."""
    try:
        tls = ClientTls(choice.files).context if choice.files.any else None
        token, file = _token(choice), None if choice.token else choice.token_file
        # A worker outlives what the file held at first.
        auth = None if file is None else BearerFile(file.expanduser(), token)
        client = Client(choice.server, token, timeout_s=timeout_s, tls=tls, proxy=PROXY.get(), auth=auth)
    except BadSettings as error:
        fail(error.message)
    except httpx.InvalidURL as error:
        fail(f"--server: {address(choice.server)}: {error}")
    try:
        with client:
            yield client
    except FAILURES as error:
        fail(explain(error, choice.server), 1)


def _token(choice: Choice) -> str:
    """The token itself. Leaves with status 2 and a hint when there is none."""
    if choice.token:
        return choice.token
    if choice.token_file is None:
        fail(
            f"a token for {address(choice.server)} is needed: --token-file or --token, TAILWRIGHT_TOKEN_FILE or "
            "TAILWRIGHT_TOKEN, or a profile (`tailwright profiles add`)"
        )
    try:
        return choice.token_file.expanduser().read_text().strip()
    except (OSError, ValueError) as error:
        fail(f"--token-file: {choice.token_file} cannot be read: {_reason(error)}")


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


def explain(error: Exception, server: str) -> str:
    """One line for a failed call of this service."""
    if isinstance(error, TailwrightError):
        return f"{error.status} {error.code}: {error.message}"
    if isinstance(error, httpx.HTTPError):
        return f"the control plane at {address(server)} does not answer: {_reason(error)}"
    if isinstance(error, ValidationError):
        return explain_values(error)
    return str(error)


def explain_values(error: ValidationError, options: Mapping[str, str] = MappingProxyType({})) -> str:
    """One line for values that a request cannot hold: each field, and what it wants. options: as which a field was
    typed, if it was."""
    found = error.errors(include_url=False)
    wanted = [(_place(place_of(item), options), mistake_text(item)) for item in found]
    return "; ".join(f"{place}: {wants}" if place else wants for place, wants in wanted)


def _place(names: list[str], options: Mapping[str, str]) -> str:
    """ "body.good.ttft", or "--good ttft": which of several options it was is not told by a number."""
    if not names or names[0] not in options:
        return ".".join(names)
    return " ".join([options[names[0]], *(name for name in names[1:] if not name.isdigit())])


def _reason(error: Exception) -> str:
    """The system's words without its number; the error's kind where it says nothing."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return re.sub(r"^\[Errno -?\d+\] ", "", str(error)) or type(error).__name__
