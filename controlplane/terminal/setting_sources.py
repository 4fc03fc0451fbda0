"""Settings are written once, as the fields of a pydantic model. Each is a flag (--spool-limit-bytes), a variable
(TAILWRIGHT_SPOOL_LIMIT_BYTES) and a key of its command's table in a TOML file (spool_limit_bytes).

Guarantee: the flag goes before the variable, that before the file, that before the field's default; an empty variable
is none. A wrong value is refused with its setting, what is wanted, and where it came from.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin

from pydantic import TypeAdapter, ValidationError
from pydantic.fields import FieldInfo

from controlplane.contract.errors import BadSettings
from controlplane.contract.mistake_text import mistake_text

Model = TypeVar("Model")

FORMS = {int: "INTEGER", float: "NUMBER", Path: "PATH", bool: ""}
PAIRS = "NAME=VALUE"
BOUNDS = {"ge": ">=", "gt": ">", "le": "<=", "lt": "<", "multiple_of": "multiple of "}


@dataclass(frozen=True)
class Setting:
    """A field with a description: what is not described cannot be set from outside."""

    name: str
    field: FieldInfo

    @property
    def flag(self) -> str:
        return "--" + self.name.replace("_", "-")

    @property
    def flags(self) -> list[str]:
        """As they are declared: a switch has two; a flag that gives one pair of several is named for one, too."""
        if self.form == PAIRS:
            return [self.flag.removesuffix("s"), self.flag]
        return [self.flag if self.form else f"{self.flag}/--no-{self.flag.removeprefix('--')}"]

    @property
    def kind(self) -> Any:
        """Its type, where it is not None."""
        given = self.field.annotation
        if get_origin(given) not in (Union, UnionType):
            return given
        return next(one for one in get_args(given) if one is not NoneType)

    @property
    def form(self) -> str:
        """What its value looks like; empty for a switch."""
        if self.name.endswith("_bytes"):
            return "BYTES"
        if get_origin(self.kind) is Literal:
            return "|".join(get_args(self.kind))
        if isinstance(self.kind, type) and issubclass(self.kind, Enum):
            return "|".join(one.value for one in self.kind)
        return PAIRS if get_origin(self.kind) is dict else FORMS.get(self.kind, "TEXT")

    @property
    def bounds(self) -> str:
        """>=1, <=65535"""
        limits = {
            name: getattr(limit, name) for limit in self.field.metadata for name in BOUNDS if hasattr(limit, name)
        }
        return ", ".join(f"{BOUNDS[name]}{limit:g}" for name, limit in limits.items())

    @property
    def default(self) -> str:
        """As it would be given; empty where there is none."""
        default = None if self.field.is_required() else self.field.default
        if default in (None, "", {}):
            return ""
        if isinstance(default, bool):
            return "on" if default else "off"
        if isinstance(default, tuple):
            return ",".join(default)
        return (
            f"{default // 2**20}M" if self.form == "BYTES" else f"{default:g}" if self.kind is float else str(default)
        )


@dataclass(frozen=True)
class Given:
    """A value, and what it came from."""

    value: Any
    source: str


def settings_of(model: Any) -> list[Setting]:
    """Of a model or a pydantic dataclass, in the order written."""
    fields: dict[str, FieldInfo] = model.__pydantic_fields__
    return [Setting(name, field) for name, field in fields.items() if field.description]


def given(
    settings: Sequence[Setting],
    flags: Mapping[str, Any],
    prefixes: Sequence[str],
    environment: Mapping[str, str],
    table: Mapping[str, Any],
    file: str,
) -> dict[str, Given]:
    """What each setting was given, by name; left out where nothing was. `prefixes` of variables: the first wins."""
    found = {}
    for setting in settings:
        variables = [prefix + setting.name.upper() for prefix in prefixes]
        variable = next((name for name in variables if environment.get(name)), None)
        if setting.name in flags:
            found[setting.name] = Given(flags[setting.name], setting.flag)
        elif variable is not None:
            found[setting.name] = Given(environment[variable], variable)
        elif setting.name in table:
            found[setting.name] = Given(table[setting.name], file)
    return found


def checked(model: type[Model], values: Mapping[str, Given], prefix: str) -> Model:
    """The model of these values. Raises `BadSettings` for the first wrong one."""
    try:
        return TypeAdapter(model).validate_python({name: one.value for name, one in values.items()})
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
    name = str(first["loc"][0]) if first["loc"] else ""
    message = mistake_text(first)
    setting = next((one for one in settings_of(model) if one.name == name), None)
    if setting is None:
        raise BadSettings(f"settings: {message}", field="settings")
    if first["type"] == "missing":
        raise BadSettings(f"{name}: is needed: give {setting.flag} or {prefix}{name.upper()}", field=name)
    shown = f", got {first['input']!r}" if setting.field.repr else ""
    raise BadSettings(f"{name}: {message}{shown} (from {values[name].source})", field=name)
