"""The TOML file of `tailwright --config FILE`: a table a command ([up], [rollout.start]), its keys the options'."""

import tomllib
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperGroup

from controlplane.contract.errors import nearest
from controlplane.terminal.service_connection import fail

OWN_SETTINGS = "agent"  # The agent checks its settings itself.


def read_config(path: Path, context: typer.Context) -> dict[str, Any]:
    """The file as click's default map for the group of `context`. Tables and keys that nothing reads are refused."""
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        fail(f"--config: {path}: {error}")
    group = context.command
    assert isinstance(group, TyperGroup)
    commands = {name: group.get_command(context, name) for name in group.list_commands(context)}
    return _commands(path, "", commands, tables)


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
    if place == OWN_SETTINGS:
        return {key.replace("-", "_"): value for key, value in table.items()}
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
