"""What a model's own check said of a wrong value, in its words alone."""

from collections.abc import Mapping
from typing import Any

_BEFORE = "Value error, "
"""What pydantic puts before the words of a `ValueError`."""


def mistake_text(mistake: Mapping[str, Any]) -> str:
    """Of one entry of `ValidationError.errors()`."""
    return str(mistake["msg"]).removeprefix(_BEFORE)
