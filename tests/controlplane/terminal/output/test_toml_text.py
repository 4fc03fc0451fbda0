"""Whatever JSON has, TOML that is written of it reads the same; what is null is left out."""

import tomllib
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from controlplane.terminal.output.toml_text import table_lines

# What TOML can hold: JSON's texts without lone surrogates, numbers that are numbers, whole ones of 64 bits.
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
LEAVES = st.one_of(
    TEXTS, st.booleans(), st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False, allow_infinity=False), st.none()
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(TEXTS, inner, max_size=3)),
    max_leaves=8,
)


def without_null(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: without_null(item) for name, item in value.items() if item is not None}
    if isinstance(value, list):
        return [without_null(item) for item in value if item is not None]
    return value


@given(things=st.lists(st.dictionaries(TEXTS, VALUES, max_size=4), min_size=1, max_size=3))
def test_what_is_written_is_read(things: list[dict[str, Any]]) -> None:
    text = "\n".join(line for thing in things for line in table_lines("route", thing))
    assert tomllib.loads(text) == {"route": [without_null(thing) for thing in things]}
