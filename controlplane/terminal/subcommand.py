"""What every subcommand is made with, so that all look the same whoever owns them."""

from typing import Any

import typer


def subcommand(**settings: Any) -> typer.Typer:
    """An empty one. Without rich markup: its boxes cut the names of variables off in a narrow terminal."""
    return typer.Typer(add_completion=False, rich_markup_mode=None, **settings)
