"""A document in a file of a person: TOML or JSON, for what has too many fields for options."""

import json
import math
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from controlplane.contract.errors import BadSettings
from controlplane.terminal.service_connection import fail
from controlplane.terminal.toml_file import read_toml

DocumentFile = Annotated[
    Path, typer.Argument(help="TOML file (.toml) or JSON; - is JSON from standard input.", allow_dash=True)
]


def read_document(path: Path) -> dict[str, Any]:
    """The document as it is written: the service says what is wrong with its fields. Leaves with status 2 where there
    is none, or it holds what no service can be sent."""
    try:
        if path.suffix == ".toml":
            document = read_toml(path, "file")
        else:
            document = json.loads(sys.stdin.read() if str(path) == "-" else path.read_text(encoding="utf-8-sig"))
    except BadSettings as error:
        fail(error.message)
    except UnicodeDecodeError:
        fail(f"file: {path} is no text in UTF-8; save it as that")
    except (OSError, ValueError, RecursionError) as error:
        fail(f"file: {path} cannot be read: {error}")
    if not isinstance(document, dict):
        fail(f"file: {path}: wants a JSON object, got {type(document).__name__}")
    if wrong := next(_not_json(document), None):
        place, value = wrong
        fail(f"file: {path}: {'.'.join(place)}: JSON has no {value}; write a finite number, or text in quotes")
    return document


def _not_json(value: Any, *place: str) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Where there is what TOML has, or Python's reader lets in, and JSON has not: times, infinity."""
    if isinstance(value, dict | list):
        for name, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _not_json(inner, *place, str(name))
    elif not isinstance(value, str | int | float | None) or (isinstance(value, float) and not math.isfinite(value)):
        yield place, value
