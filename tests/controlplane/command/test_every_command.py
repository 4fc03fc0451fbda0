"""What holds for every command there is, found by walking the command line itself."""

import re
from collections.abc import Iterator
from typing import Any

import click
import pytest
import typer

from controlplane.command.main import SUBCOMMANDS, app

GROUP: Any = typer.main.get_command(app)
ROOT = click.Context(GROUP, info_name="tailwright", auto_envvar_prefix="TAILWRIGHT")

WITHOUT_JSON = {
    "up": "runs until it is ended, and logs",
    "agent": "runs until it is ended, and logs",
    "engine": "runs until it is ended, and logs",
    "demo": "tells a story to a person; whether it happened is its exit status",
    "bench": "prints the tables of docs/benchmarks.md",
    "export": "writes data itself, in the form that --format says",
    "configs export": "writes TOML, arguments or a patch; `configs show --json` has the knobs",
    "studies report": "writes HTML; `studies show --json` has what it is drawn from",
    "alerting export": "writes TOML; the lists of each noun have the same as JSON",
    "people export": "writes JSON, which it is for",
}
"""Commands for which one JSON document makes no sense, and why."""
VARIABLE = re.compile(r"\bTAILWRIGHT_[A-Z0-9_]+")


def commands() -> Iterator[tuple[str, Any, Any]]:
    """Every command that does something, with its context: "store verify"."""
    for name in SUBCOMMANDS:
        one = GROUP.get_command(ROOT, name)
        yield from _within(name, one, type(ROOT)(one, info_name=name, parent=ROOT))


def _within(name: str, one: Any, context: Any) -> Iterator[tuple[str, Any, Any]]:
    inner = getattr(one, "commands", {})
    if not inner or one.invoke_without_command:
        yield name, one, context
    for verb, command in inner.items():
        yield from _within(f"{name} {verb}", command, type(ROOT)(command, info_name=verb, parent=context))


EVERY = {name: (one, context) for name, one, context in commands()}


def variables(option: Any, context: Any) -> list[str]:
    """Those that the help names for the option: what stands behind "env var:"."""
    told = option.get_help_record(context)
    return VARIABLE.findall(" ".join(re.findall(r"env var: ([^;\]]*)", told[1]))) if told else []


def test_the_walk_finds_verbs_groups_that_act_and_single_commands() -> None:
    assert {"store backup", "tls revoke", "secrets rotate", "doctor", "doctor vllm", "load", "rollout start"} <= set(
        EVERY
    )
    assert "store" not in EVERY and len(EVERY) > 60


@pytest.mark.parametrize("name", EVERY)
def test_each_prints_for_programs_too_or_says_why_not(name: str) -> None:
    takes_it = any("--json" in one.opts for one in EVERY[name][0].params)
    assert takes_it != (name in WITHOUT_JSON), f"{name}: give it --json, or say in WITHOUT_JSON why it has none"


def test_no_exception_is_for_a_command_that_is_gone() -> None:
    assert set(WITHOUT_JSON) <= set(EVERY)


@pytest.mark.parametrize("name", EVERY)
def test_the_help_names_one_variable_for_each_option(name: str) -> None:
    one, context = EVERY[name]
    for option in one.get_params(context):
        named = variables(option, context)
        assert len(named) <= 1, f"{name} {option.opts}: {', '.join(named)}"


def test_a_setting_of_up_is_named_once_and_every_option_that_can_be_set_from_outside_says_how() -> None:
    one, context = EVERY["up"]
    port = next(option for option in one.params if "--port" in option.opts)
    assert variables(port, context) == ["TAILWRIGHT_PORT"]
    window = next(option for option in EVERY["quantiles"][0].params if "--window" in option.opts)
    assert variables(window, EVERY["quantiles"][1]) == ["TAILWRIGHT_QUANTILES_WINDOW"]
