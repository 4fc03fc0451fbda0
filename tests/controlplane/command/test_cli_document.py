"""docs/cli.md and the command line have the same commands; every one that a document names exists, with its options."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
import typer

from controlplane.command.main import SUBCOMMANDS, app

ROOT = Path(__file__).resolve().parents[3]
DOCUMENT = (ROOT / "docs/cli.md").read_text()
GROUP: Any = typer.main.get_command(app)
CONTEXT = click.Context(GROUP, info_name="tailwright")
ON_ONE_MACHINE = {"up", "demo", "agent", "engine", "tune", "replay", "traffic", "export", "load", "store", "tls"}
ON_ONE_MACHINE |= {"secrets", "doctor", "bench", "open"}
"""Described elsewhere: they run something, or look at what is here."""


COMPLETION = {"--install-completion", "--show-completion"}


def options_of(one: Any) -> set[str]:
    return {option for each in one.params for option in (*each.opts, *each.secondary_opts)}


def command(name: str) -> Any:
    return GROUP.get_command(CONTEXT, name)


def rows() -> dict[str, set[str]]:
    """Of the table of nouns."""
    table = DOCUMENT.partition("\n## Nouns\n")[2].partition("\n## ")[0]
    found = re.findall(r"^\| `([a-z-]+)` \| (.*) \|$", table, re.MULTILINE)
    return {noun: set(re.findall(r"`([a-z-]+)`", verbs)) for noun, verbs in found}


def examples() -> Iterator[str]:
    """A line each, continued ones joined."""
    for document in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]:
        for line in document.read_text().replace("\\\n", " ").splitlines():
            if line.startswith("    tailwright "):
                yield line.strip()


def test_each_noun_is_in_the_document_with_its_verbs() -> None:
    told = rows()
    assert set(told) == set(SUBCOMMANDS) - ON_ONE_MACHINE
    for noun, verbs in told.items():
        there = set(getattr(command(noun), "commands", {}))
        assert {verb for verb in verbs if not verb.startswith("-")} == there, noun


@pytest.mark.parametrize("line", sorted(set(examples())))
def test_each_example_is_a_command_with_its_options(line: str) -> None:
    words = shlex.split(line, comments=True)[1:]
    here, known = GROUP, options_of(GROUP)
    for word in words:
        if word.startswith("--"):
            assert word.partition("=")[0] in known | {"--help", *COMPLETION}, word
        elif hasattr(here, "get_command") and (here is not GROUP or word in SUBCOMMANDS):
            inner = here.get_command(CONTEXT, word)
            assert inner is not None or here.params, f"{word} is no verb"
            here = inner or here
            known |= options_of(here)
    assert here is not GROUP or known.union(COMPLETION).intersection(words)
