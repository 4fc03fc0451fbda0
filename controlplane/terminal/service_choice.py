"""Which service a command speaks to, and with which token: decided from options, variables and a profile. Pure.

Guarantee: a profile's token file is read for the profile's own server only; whoever names another server names a token.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from controlplane.contract.errors import BadSettings
from controlplane.serving.tls import ClientFiles
from controlplane.terminal.profiles import Profile

SERVER = "http://127.0.0.1:7300"
"""Where `tailwright up` listens by itself."""
NO_FILES = ClientFiles()


@dataclass(frozen=True)
class Source:
    """What one place says; None: nothing. `files` are those of TLS."""

    server: str | None = None
    token: str | None = None
    token_file: Path | None = None
    files: ClientFiles = NO_FILES
    is_profile: bool = False

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> "Source":
        """Empty variables are none."""
        file = values.get("token_file")
        return cls(values.get("server") or None, values.get("token") or None, None if file is None else Path(file))

    @classmethod
    def of_profile(cls, profile: Profile) -> "Source":
        files = ClientFiles(profile.ca_file, profile.client_cert, profile.client_key)
        return cls(profile.server, None, profile.token_file, files, is_profile=True)


@dataclass(frozen=True)
class Choice:
    """A service, and the token or the file that holds it; neither: none was given."""

    server: str
    token: str | None = None
    token_file: Path | None = None
    files: ClientFiles = NO_FILES


def choose(options: Source, around: Source, profile: Source | None, *, is_named: bool, files: ClientFiles) -> Choice:
    """`around`: variables and the --config file. `is_named`: --profile itself was given, which goes before them.

    `files` are those that `tailwright` was given before the command's name: they go before the profile's.
    Raises `BadSettings` for what is no address of a server.
    """
    order: Sequence[Source | None] = (options, profile, around) if is_named else (options, around, profile)
    sources = [source for source in order if source is not None]
    chosen = next((source for source in sources if source.server), Source(SERVER))
    server = str(chosen.server)
    if not server.startswith(("http://", "https://", "unix:")):
        raise BadSettings(
            f"--server: wants http://HOST:PORT, https://HOST or unix:PATH, got {server!r}", field="server"
        )
    own = [source for source in sources if not source.is_profile or chosen.is_profile]
    holder = next((source for source in own if source.token or source.token_file), Source())
    tls = files if files.any or not chosen.is_profile else chosen.files
    return Choice(server, holder.token, None if holder.token else holder.token_file, tls)
