"""TOML written of JSON's values. Pure.

Guarantee: what is read again are the same values, but for null, which TOML has not: such a field is left out.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from controlplane.terminal.toml_file import toml_string

_BARE = re.compile(r"[A-Za-z0-9_-]+")


def table_lines(name: str, values: Mapping[str, Any]) -> Iterator[str]:
    """An entry of `[[name]]`; objects in it are tables of their own, below its other fields."""
    yield f"[[{name}]]"
    yield from _fields(name, values)


def _fields(path: str, values: Mapping[str, Any]) -> Iterator[str]:
    given = {key: value for key, value in values.items() if value is not None}
    yield from (f"{_key(key)} = {_value(value)}" for key, value in given.items() if not isinstance(value, Mapping))
    for key, value in given.items():
        if isinstance(value, Mapping):
            yield f"[{path}.{_key(key)}]"
            yield from _fields(f"{path}.{_key(key)}", value)


def _key(key: str) -> str:
    return key if _BARE.fullmatch(key) else toml_string(key)


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        inside = ", ".join(f"{_key(key)} = {_value(item)}" for key, item in value.items() if item is not None)
        return f"{{ {inside} }}" if inside else "{}"
    if isinstance(value, list):
        return f"[{', '.join(_value(item) for item in value if item is not None)}]"
    if isinstance(value, bool):
        return "true" if value else "false"
    return toml_string(value) if isinstance(value, str) else repr(value)
