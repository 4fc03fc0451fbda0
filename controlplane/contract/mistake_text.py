"""What a model's own check said of a wrong value, in its words alone, but for a pattern: that is told as its mend; and
where it said so. Of a value that is none of a few the nearest is told, too.
"""

import re
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any

_BEFORE = "Value error, "
"""What pydantic puts before the words of a `ValueError`."""
_SCHEMES = re.compile(r"\^\(?([^()^]+)\)?://")
"""A pattern that only says how a URL begins."""


_KEY = "[key]"
"""Behind a mapping's wrong name, where a mistake is the name's own."""
_NAMES = re.compile(r"'([^']*)'")


def place_of(mistake: Mapping[str, Any]) -> list[str]:
    """The names that lead to it, the outermost first."""
    return [str(part) for part in mistake["loc"] if part != _KEY]


def mistake_text(mistake: Mapping[str, Any]) -> str:
    """Of one entry of `ValidationError.errors()`."""
    if mistake["type"] == "string_pattern_mismatch":
        return _form_text(str(mistake["ctx"]["pattern"]))
    if mistake["type"] in ("literal_error", "enum"):
        said = mistake["loc"][-2] if mistake["loc"][-1:] == (_KEY,) else mistake.get("input")
        near = get_close_matches(str(said).lower(), _NAMES.findall(mistake["ctx"]["expected"]), n=1)
        return str(mistake["msg"]) + (f" (did you mean {near[0]!r}?)" if near else "")
    return str(mistake["msg"]).removeprefix(_BEFORE)


def _form_text(pattern: str) -> str:
    found = _SCHEMES.fullmatch(pattern)
    if found is None:
        return f"wants text of the form {pattern}"
    schemes = [one.replace("\\", "") for one in found[1].split("|")]
    both = [scheme for one in schemes for scheme in ((one[:-2], one[:-1]) if one.endswith("s?") else (one,))]
    *others, last = [f"{scheme}://" for scheme in both]
    return "wants to begin with " + (f"{', '.join(others)} or {last}" if others else last)
