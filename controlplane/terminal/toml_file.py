"""TOML as people write it for Tailwright: one reader for every file, and how a text is written in one."""

import json
import tomllib
from pathlib import Path
from typing import Any

from controlplane.contract.errors import BadSettings


def read_toml(path: Path, field: str) -> dict[str, Any]:
    """Raises `BadSettings` for a file that cannot be read; `field` is the setting that named it."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except UnicodeDecodeError as error:
        raise BadSettings(f"{field}: {path} is no text in UTF-8; save it as that", field=field) from error
    except (OSError, ValueError) as error:
        raise BadSettings(f"{field}: {path} cannot be read: {error}", field=field) from error


def toml_string(text: str) -> str:
    """A TOML basic string: JSON's, but for the delete character, which TOML wants escaped."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
