"""How the embedded engine's control surface is reached: a Unix socket beside its port, or a port that wants a token."""

from dataclasses import dataclass
from pathlib import Path
from ssl import SSLContext

import httpx

from agents.host.engine_socket import engine_socket
from agents.host.listener import port_of
from controlplane.contract.errors import BadSettings

_TIMEOUT_S = 10.0


@dataclass(frozen=True)
class EngineControl:
    """Either `socket`, or `url` with `token`."""

    socket: Path | None = None
    url: str = "http://engine"
    token: str = ""

    @classmethod
    def beside(cls, engine_url: str) -> "EngineControl":
        """The socket that an engine of this machine serves by its port's number. Raises BadSettings for another's."""
        port = port_of(engine_url)
        if port is None:
            raise BadSettings(
                f"engine_control_url: {engine_url} is another machine's engine; start it with --control-port and "
                "--control-token-file, and name that address and a copy of the token here",
                field="engine_control_url",
            )
        return cls(engine_socket(port))

    @classmethod
    def at(cls, url: str, token_file: Path) -> "EngineControl":
        """A control port. Raises BadSettings when the token cannot be read."""
        try:
            token = token_file.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise BadSettings(
                f"engine_control_token_file: {token_file} cannot be read: {error}", field="engine_control_token_file"
            ) from error
        return cls(None, url, token)

    def client(self, tls: SSLContext | None = None) -> httpx.AsyncClient:
        headers = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        transport = None if self.socket is None else httpx.AsyncHTTPTransport(uds=str(self.socket))
        return httpx.AsyncClient(
            base_url=self.url,
            headers=headers,
            timeout=_TIMEOUT_S,
            trust_env=False,
            transport=transport,
            verify=tls or True,
        )
