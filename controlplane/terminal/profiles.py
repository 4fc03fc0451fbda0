"""Profiles: services by name, in `profiles.toml` of the user's configuration folder.

    default = "production"              # what commands use where nothing else says which service

    [profiles.production]
    server = "https://tailwright.example"
    token_file = "/home/ada/production.token"
    ca_file = "/home/ada/ca.pem"        # also client_cert and client_key; each but `server` may be left out

Guarantee: the file names token files and holds no token; it is replaced whole or not at all.
"""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import typer

from controlplane.contract.errors import BadSettings, nearest
from controlplane.terminal.toml_file import read_toml, toml_string

NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")


@dataclass(frozen=True)
class Profile:
    """A service, and what it is spoken to with."""

    server: str
    token_file: Path | None = None
    ca_file: Path | None = None
    client_cert: Path | None = None
    client_key: Path | None = None


@dataclass(frozen=True)
class Profiles:
    """All of a user's, and the name of the one that is used where nothing else says which service."""

    named: Mapping[str, Profile] = field(default_factory=dict)
    default: str | None = None

    def profile(self, name: str) -> Profile:
        """Raises `BadSettings`, which names the nearest, where there is none."""
        if name not in self.named:
            hint = nearest(name, list(self.named)) if self.named else "there is none: `tailwright profiles add`"
            raise BadSettings(f"profile: no profile {name!r}, {hint}", field="profile")
        return self.named[name]

    def with_profile(self, name: str, profile: Profile) -> "Profiles":
        """Raises `BadSettings` for a name that is none."""
        if not NAME.fullmatch(name):
            raise BadSettings(f"name: wants 1 to 64 letters, digits, `.`, `_` or `-`, got {name!r}", field="name")
        return replace(self, named={**self.named, name: profile})

    def without(self, name: str) -> "Profiles":
        self.profile(name)
        kept = {other: profile for other, profile in self.named.items() if other != name}
        return Profiles(kept, None if self.default == name else self.default)


def profiles_file() -> Path:
    """On Linux $XDG_CONFIG_HOME/tailwright/profiles.toml, by default under ~/.config."""
    return Path(typer.get_app_dir("tailwright")) / "profiles.toml"


def read_profiles(path: Path) -> Profiles:
    """None where there is no file. Raises `BadSettings` for one that cannot be read, or has keys that nothing reads."""
    try:
        if not path.is_file():
            return Profiles()
    except OSError as error:
        raise BadSettings(f"profiles: {path} cannot be read: {error.strerror}", field="profiles") from error
    document = read_toml(path, "profiles")
    _known(path, "", document, ["default", "profiles"])
    tables = document.get("profiles", {})
    if not isinstance(tables, dict):
        raise BadSettings(f"profiles: {path}: [profiles] is not a table", field="profiles")
    found = Profiles({name: _profile(path, name, table) for name, table in tables.items()}, document.get("default"))
    if found.default is not None:
        found.profile(found.default)
    return found


def write_profiles(path: Path, profiles: Profiles) -> None:
    """Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.part{os.getpid()}")
    try:
        part.write_text(toml_of(profiles), encoding="utf-8")
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def toml_of(profiles: Profiles) -> str:
    """The file's text; `read_profiles` reads the same out of it."""
    lines = [] if profiles.default is None else [f"default = {toml_string(profiles.default)}", ""]
    for name, profile in sorted(profiles.named.items()):
        given = {one.name: getattr(profile, one.name) for one in fields(profile)}
        lines += [f"[profiles.{toml_string(name)}]"]
        lines += [f"{key} = {toml_string(str(value))}" for key, value in given.items() if value is not None] + [""]
    return "\n".join(lines)


def _profile(path: Path, name: str, table: Any) -> Profile:
    place = f"profiles.{name}"
    if not isinstance(table, dict):
        raise BadSettings(f"profiles: {path}: [{place}] is not a table", field=place)
    _known(path, f"[{place}] ", table, [one.name for one in fields(Profile)])
    wrong = next((key for key, value in table.items() if not isinstance(value, str)), None)
    if wrong is not None or "server" not in table:
        raise BadSettings(f"profiles: {path}: [{place}] {wrong or 'server'}: wants a text", field=place)
    files = {key: Path(value).expanduser() for key, value in table.items() if key != "server"}
    return Profile(server=table["server"], **files)


def _known(path: Path, place: str, table: Mapping[str, Any], keys: list[str]) -> None:
    for key in table:
        if key not in keys:
            raise BadSettings(f"profiles: {path}: {place}{key}: no such key, {nearest(key, keys)}", field=key)
