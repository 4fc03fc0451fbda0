"""Values of settings as people write them: 256M, several NAME=VALUE, words with commas between."""

import json
import re
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator

from controlplane.contract.errors import BadSettings
from controlplane.serving import owned_files

UNITS = {
    **{unit: 10 ** (3 * power) for power, unit in enumerate("kmgt", 1)},
    **{unit: 2 ** (10 * power) for power, unit in enumerate("KMGT", 1)},
}
"""vLLM's: small letters are powers of ten, capital ones powers of two."""


def bytes_of(value: Any) -> Any:
    """ "256M" to 268435456; what has no unit is left to the check for a whole number."""
    written = re.fullmatch(r"(\d+(?:\.\d+)?)([kmgtKMGT])", value) if isinstance(value, str) else None
    return int(Decimal(written[1]) * UNITS[written[2]]) if written else value


def pairs_of(value: Any) -> Any:
    """Several NAME=VALUE, or a JSON object, to a mapping. Raises ValueError."""
    if isinstance(value, str):
        value = json.loads(value) if value.startswith("{") else value.split()
    if not isinstance(value, list | tuple):
        return value
    found = {}
    for pair in value:
        name, equals, text = str(pair).partition("=")
        if not equals or not name:
            raise ValueError("wants NAME=VALUE")
        found[name.strip()] = text.strip()
    return found


def pairs_in_file(file: Path | None, field: str) -> dict[str, str]:
    """Of a file of secrets, NAME=VALUE a line; none without a file. Raises BadSettings, which tells no line."""
    if file is None:
        return {}
    text = owned_files.read(file, field, mounted=True)
    if text is None:
        raise BadSettings(f"{field}: {file} is not there", field=field)
    lines = [line.strip() for line in text.splitlines()]
    try:
        found: dict[str, str] = pairs_of([line for line in lines if line and not line.startswith("#")])
    except ValueError:
        raise BadSettings(f"{field}: {file} wants NAME=VALUE in each line", field=field) from None
    return found


def words_of(value: Any) -> Any:
    """ "none,int8" to its words."""
    return tuple(value.split(",")) if isinstance(value, str) else value


Bytes = Annotated[int, BeforeValidator(bytes_of)]
Pairs = Annotated[dict[str, str], BeforeValidator(pairs_of)]
