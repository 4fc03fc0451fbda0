"""TOML files that declare alerting and hooks: `[[alert_rule]]`, `[[destination]]`, `[[hook]]` and the like, with the
API's own fields. Tables of a pool may stand in the same files (`pools.pool_files`); a hook is of that pool.

Guarantees: a secret never stands in a file, and never in an error; whatever is wrong is told with its file, its table,
its number there and its field. What the values may be, the service says: `told` puts its words into a file's terms.
"""

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from controlplane.command.pools import pool_files
from controlplane.contract.errors import BadSettings, TailwrightError, nearest
from controlplane.contract.on_call.declared_alerting import (
    DeclaredDestination,
    DeclaredHook,
    DeclaredInhibitRule,
    DeclaredKind,
    DeclaredRoute,
    DeclaredRule,
    DeclaredSilence,
)
from controlplane.terminal.toml_file import read_toml

MAY_STAND = ("url",)
"""Of what is secret in a thing what is not always so."""


@dataclass(frozen=True)
class Table:
    """A kind of table: the request's list that it goes into, and its fields. secrets: those that are better named than
    written; of_a_pool: whether the file's `[pool]` says its field `pool`."""

    kind: DeclaredKind
    list_name: str
    model: type[BaseModel]
    secrets: Sequence[str] = ()
    of_a_pool: bool = False

    @property
    def fields(self) -> list[str]:
        elsewhere = {"origin", *(["pool"] if self.of_a_pool else []), *self.secrets} - {*MAY_STAND}
        named = [f"{name}_{how}" for name in self.secrets for how in ("file", "env")]
        return [name for name in self.model.model_fields if name not in elsewhere] + named


_RULE = Table(DeclaredKind.ALERT_RULE, "alert_rules", DeclaredRule)
_INHIBIT_RULE = Table(DeclaredKind.INHIBIT_RULE, "inhibit_rules", DeclaredInhibitRule)
TABLES: Mapping[str, Table] = {
    "alert_rule": _RULE,
    "rule": _RULE,
    "route": Table(DeclaredKind.ROUTE, "routes", DeclaredRoute),
    "inhibit_rule": _INHIBIT_RULE,
    "inhibit": _INHIBIT_RULE,
    "silence": Table(DeclaredKind.SILENCE, "silences", DeclaredSilence),
    "destination": Table(
        DeclaredKind.DESTINATION, "destinations", DeclaredDestination, ("url", "secret", "callback_secret")
    ),
    "hook": Table(DeclaredKind.HOOK, "hooks", DeclaredHook, ("url", "secret"), of_a_pool=True),
}
"""By what a file calls them; the first name of each is the one that is written."""


@dataclass(frozen=True)
class Place:
    """Where a thing stands: the `number`th table of its name in the file."""

    file: Path
    table: str
    number: int
    values: Mapping[str, Any]

    def __str__(self) -> str:
        name = self.values.get("name")
        named = f" {name[:80]!r}" if isinstance(name, str) else ""
        return f"{self.file}: [[{self.table}]] {self.number}{named}"


class WrongFiles(BadSettings):
    """Files that declare nothing that could be applied; `problems`: each, in the order of the files."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = list(problems)


@dataclass(frozen=True)
class Declared:
    """What the files declare: the request's lists, where each of their things stands, and the files that were read.

    documents: each file as it was read, for who looks for other tables in it.
    """

    lists: Mapping[str, Sequence[Mapping[str, Any]]]
    places: Mapping[str, Sequence[Place]]
    origins: Sequence[str]
    documents: Mapping[Path, Mapping[str, Any]]

    def body(self, *, prune: bool, dry_run: bool) -> dict[str, Any]:
        """Of `PUT /api/v1/alerting`."""
        return {**self.lists, "origins": list(self.origins), "prune": prune, "dry_run": dry_run}

    def told(self, error: TailwrightError) -> list[str]:
        """What the service refuses, in the files' terms."""
        problems = error.detail.get("errors")
        if not isinstance(problems, list):
            field, message = str(error.detail.get("field", "")), error.message
            problems = [{"field": field, "message": message.removeprefix(f"{field}: ")}]
        return [self._told(str(one["field"]), str(one["message"])) for one in problems]

    def _told(self, field: str, message: str) -> str:
        parts = field.split(".")
        if len(parts) < 3 or parts[1] not in self.places or not parts[2].isdecimal():
            return f"{field}: {message}" if field else message
        place, inner = self.places[parts[1]][int(parts[2])], parts[3:]
        condition = place.values.get("condition")
        if inner[:1] == ["condition"] and isinstance(condition, Mapping) and inner[1:2] == [condition.get("kind")]:
            del inner[1]  # The form of the condition, which the file says elsewhere.
        return ": ".join([str(place), *([".".join(inner)] if inner else []), message])


def read_files(paths: Sequence[Path], environ: Mapping[str, str] = os.environ) -> Declared:
    """All that these files declare, folders with their `*.toml`. Raises `WrongFiles` that tells all that is wrong."""
    found = [(file, origin) for path in paths for file, origin in _files(path)]
    folders = [f"{path.resolve().name}/" for path in paths if path.is_dir()]
    lists: dict[str, list[Mapping[str, Any]]] = {table.list_name: [] for table in TABLES.values()}
    places: dict[str, list[Place]] = {name: [] for name in lists}
    documents: dict[Path, Mapping[str, Any]] = {}
    problems: list[str] = []
    for file, origin in found:
        try:
            documents[file] = read_toml(file, "file")
        except BadSettings as error:
            problems.append(error.message.removeprefix("file: "))
            continue
        for place, problem in _tables(file, documents[file]):
            if place is None:
                problems.append(problem)
                continue
            table = TABLES[place.table]
            wrong = list(_wrong_keys(place, table))
            values = {} if wrong else _request_values(place, table, environ, wrong)
            problems += dict.fromkeys(wrong)
            of = {"pool": pool_files.pool_of(documents[file])} if table.of_a_pool else {}
            lists[table.list_name].append({**values, **of, "origin": origin})
            places[table.list_name].append(place)
    if problems:
        raise WrongFiles(problems)
    return Declared(lists, places, [*folders, *dict.fromkeys(origin for _, origin in found)], documents)


def _files(path: Path) -> Iterator[tuple[Path, str]]:
    """Each file, and its name as an origin: of a folder's file with the folder's."""
    if not path.is_dir():
        yield path, path.name
        return
    files = sorted(path.glob("*.toml"))
    if not files:
        raise WrongFiles([f"{path}: this folder has no *.toml; an empty one would declare nothing"])
    for file in files:
        yield file, f"{path.resolve().name}/{file.name}"


def _tables(file: Path, document: Mapping[str, Any]) -> Iterator[tuple[Place | None, str]]:
    """Each table of a file, or what is wrong."""
    for name, tables in document.items():
        if name in pool_files.TABLES:
            continue
        if name not in TABLES:
            yield None, f"{file}: [[{name}]]: no such table, {nearest(name, [*TABLES, *pool_files.TABLES])}"
        elif not isinstance(tables, list) or not all(isinstance(one, dict) for one in tables):
            yield None, f"{file}: {name}: wants tables, each as [[{name}]]"
        else:
            yield from ((Place(file, name, number, one), "") for number, one in enumerate(tables, start=1))


def _wrong_keys(place: Place, table: Table) -> Iterator[str]:
    for key in place.values:
        if table.of_a_pool and key == "pool":
            yield f"{place}: pool: it is of the file's pool; leave it out"
        elif key in table.secrets and key not in table.fields:
            yield f"{place}: {key}: a secret does not stand in a file; name where it is: {key}_file or {key}_env"
        elif key not in table.fields:
            yield f"{place}: {key}: no such field, {nearest(key, table.fields)}"


def _request_values(place: Place, table: Table, environ: Mapping[str, str], wrong: list[str]) -> dict[str, Any]:
    """As the request has them. What is wrong is added to `wrong`."""
    values: dict[str, Any] = {}
    for key, value in place.values.items():
        name, _, how = key.rpartition("_")
        try:
            if name in table.secrets and how in ("file", "env"):
                _refuse_second(place, name)
                values[name] = _named(place, key, value, environ)
            else:
                values[key] = _json(value, key)
        except BadSettings as error:
            wrong.append(f"{place}: {error.message}")
    return values


def _refuse_second(place: Place, name: str) -> None:
    given = [key for key in place.values if key == name or key in (f"{name}_file", f"{name}_env", f"{name}_kept")]
    if len(given) > 1:
        raise BadSettings(f"{given[1]}: {given[0]} is given too; keep one of them")


def _named(place: Place, key: str, value: Any, environ: Mapping[str, str]) -> str:
    """The secret that a file or a variable holds; a file is looked for beside the one that names it."""
    if not isinstance(value, str) or not value:
        raise BadSettings(f"{key}: wants a {'path' if key.endswith('_file') else 'name'} as text")
    if key.endswith("_env"):
        if not environ.get(value):
            raise BadSettings(f"{key}: the variable {value} is not set, or empty")
        return environ[value]
    path = place.file.parent / Path(value).expanduser()
    try:
        text = path.read_text(encoding="utf-8").strip()
    except (OSError, ValueError) as error:
        raise BadSettings(f"{key}: {path} cannot be read: {getattr(error, 'strerror', None) or 'not text'}") from None
    if not text:
        raise BadSettings(f"{key}: {path} is empty")
    return text


def _json(value: Any, field: str) -> Any:
    """TOML's value as JSON has it: a time as text. Raises `BadSettings`."""
    if isinstance(value, dict):
        return {name: _json(item, f"{field}.{name}") for name, item in value.items()}
    if isinstance(value, list):
        return [_json(item, f"{field}.{number}") for number, item in enumerate(value)]
    if isinstance(value, float) and not math.isfinite(value):
        raise BadSettings(f"{field}: {value} is not a number that can be sent")
    return value.isoformat() if isinstance(value, datetime | date | time) else value
