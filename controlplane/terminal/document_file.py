"""A document in a file of a person: TOML or JSON, for what has too many fields for options."""

import json
import sys
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
    is none."""
    try:
        if path.suffix == ".toml":
            return read_toml(path, "file")
        document = json.loads(sys.stdin.read() if str(path) == "-" else path.read_text(encoding="utf-8"))
    except BadSettings as error:
        fail(error.message)
    except (OSError, ValueError, RecursionError) as error:
        fail(f"file: {path} cannot be read: {error}")
    if not isinstance(document, dict):
        fail(f"file: {path}: wants a JSON object, got {type(document).__name__}")
    return document
