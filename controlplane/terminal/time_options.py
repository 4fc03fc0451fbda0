"""Lengths and moments as people write them on a command line, read as the API reads them."""

from datetime import datetime
from typing import Annotated

import typer

from controlplane.contract.errors import BadRequest
from controlplane.telemetry.values.timespan import parse_duration, parse_time
from controlplane.terminal.service_connection import fail

Window = Annotated[str | None, typer.Option(help="How far back from --end, e.g. 1h; default 5m.")]
Start = Annotated[str | None, typer.Option(help="RFC 3339, e.g. 2026-01-31T12:00:00Z.")]
End = Annotated[str | None, typer.Option(help="RFC 3339; default: now.")]


def length_s(option: str, text: str) -> float:
    """Seconds. Leaves with status 2 where it is no length of time."""
    try:
        return parse_duration(text, option)
    except BadRequest as error:
        fail(error.message)


def moment(option: str, text: str | None) -> datetime | None:
    """Leaves with status 2 where it is no moment."""
    try:
        return None if text is None else parse_time(text, option)
    except BadRequest as error:
        fail(error.message)
