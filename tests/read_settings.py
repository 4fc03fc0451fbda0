"""Settings as a command would read them from these words, the environment and the file of --config."""

from collections.abc import Sequence
from typing import Any

from typer.testing import CliRunner

from controlplane.terminal.config_file import ConfigFile
from controlplane.terminal.settings_options import with_settings
from controlplane.terminal.subcommand import subcommand


def read(model: type[Any], command: str, words: Sequence[str], prefix: str = "TAILWRIGHT_") -> Any:
    """The model; or what is said instead: the help, or why the command leaves with status 2."""
    app, made = subcommand(), []

    def take(settings: Any, config: ConfigFile = None) -> None:
        made.append(settings)

    take.__annotations__["settings"] = model
    app.command(command)(with_settings(prefix)(take))
    answer = CliRunner().invoke(app, list(words))
    assert made or answer.exit_code in (0, 2), answer.output
    return made[0] if made else answer.output
