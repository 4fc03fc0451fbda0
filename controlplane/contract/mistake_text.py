"""What a model's own check said of a wrong value, in its words alone, but for a pattern: that is told as its mend."""

import re
from collections.abc import Mapping
from typing import Any

_BEFORE = "Value error, "
"""What pydantic puts before the words of a `ValueError`."""
_SCHEMES = re.compile(r"\^\(?([^()^]+)\)?://")
"""A pattern that only says how a URL begins."""


def mistake_text(mistake: Mapping[str, Any]) -> str:
    """Of one entry of `ValidationError.errors()`."""
    if mistake["type"] == "string_pattern_mismatch":
        return _form_text(str(mistake["ctx"]["pattern"]))
    return str(mistake["msg"]).removeprefix(_BEFORE)


def _form_text(pattern: str) -> str:
    found = _SCHEMES.fullmatch(pattern)
    if found is None:
        return f"wants text of the form {pattern}"
    schemes = [one.replace("\\", "") for one in found[1].split("|")]
    both = [scheme for one in schemes for scheme in ((one[:-2], one[:-1]) if one.endswith("s?") else (one,))]
    *others, last = [f"{scheme}://" for scheme in both]
    return "wants to begin with " + (f"{', '.join(others)} or {last}" if others else last)
