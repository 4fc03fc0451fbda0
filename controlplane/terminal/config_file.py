"""The TOML file of `tailwright --config FILE`: a table a command ([up], [rollout.start]), its keys the options'."""

from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from controlplane.contract.errors import BadSettings, nearest
from controlplane.terminal.service_connection import fail
from controlplane.terminal.toml_file import read_toml

FILE = "tailwright.config"
"""Where the context keeps the file's path."""


def read_config(path: Path, context: typer.Context) -> dict[str, Any]:
    """The file as click's default map for the group of `context`. Tables and keys that nothing reads are refused."""
    context.meta[FILE] = path
    group = context.command
    assert isinstance(group, TyperGroup)
    commands = {name: group.get_command(context, name) for name in group.list_commands(context)}
    return _commands(path, "", commands, _read(path))


def _take_table(context: typer.Context, path: Path | None) -> None:
    if path is not None:
        context.meta[FILE] = path
        place, content = str(context.command.name), _read(path)
        table = content.get(place, content)
        if not isinstance(table, dict):
            fail(f"--config: {path}: [{place}] is not a table")
        context.default_map = {**(context.default_map or {}), **_options(path, place, context.command, table)}


ConfigFile = Annotated[
    Path | None,
    typer.Option(
        "--config", help="TOML file: its table of this command, or all of it.", callback=_take_table, is_eager=True
    ),
]
"""For a command that is also started without `tailwright`."""


def _read(path: Path) -> dict[str, Any]:
    try:
        return read_toml(path, "--config")
    except BadSettings as error:
        fail(error.message)


def _commands(path: Path, place: str, commands: dict[str, Any], tables: dict[str, Any]) -> dict[str, Any]:
    found = {}
    for name, table in tables.items():
        if name not in commands or not isinstance(table, dict):
            fail(f"--config: {path}: [{place}{name}] is no command; commands: {', '.join(sorted(commands))}")
        inner = getattr(commands[name], "commands", None)
        if inner is None:
            found[name] = _options(path, f"{place}{name}", commands[name], table)
        else:
            # A group that does something by itself has options of its own beside its commands.
            own = {key: value for key, value in table.items() if commands[name].params and key not in inner}
            below = {key: value for key, value in table.items() if key not in own}
            found[name] = {
                **_options(path, f"{place}{name}", commands[name], own),
                **_commands(path, f"{place}{name}.", inner, below),
            }
    return found


def _options(path: Path, place: str, command: Any, table: dict[str, Any]) -> dict[str, Any]:
    names = {
        option.removeprefix("--").replace("-", "_"): parameter.name
        for parameter in command.params
        for option in parameter.opts
        if option.startswith("--") and not parameter.is_eager
    }
    values = {}
    for key, value in table.items():
        name = key.replace("-", "_")
        if name not in names:
            fail(f"--config: {path}: [{place}] {key}: no such option, {nearest(name, list(names))}")
        values[names[name]] = value
    return values
