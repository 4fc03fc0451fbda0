"""One real service for the commands of a file, with nodes that were enrolled and a minute of telemetry."""

from collections.abc import Iterator

import pytest

from tests.controlplane.command.nouns.plane import Plane
from tests.peers import send, service


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plane]:
    with service(tmp_path_factory.mktemp("plane") / "data") as running:
        made = Plane(running.url, running.token, running.http)
        made.enrol("gpu-2", "chat")
        made.enrol("gpu-1", "chat")
        made.enrol("try-1", "chat", "trial")
        send(running, "chat")
        yield made


@pytest.fixture(autouse=True)
def no_profiles(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever runs the tests may have profiles, and variables, of their own."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.mktemp("config")))
    for name in ("SERVER_URL", "TOKEN", "TOKEN_FILE", "PROFILE"):
        monkeypatch.delenv(f"TAILWRIGHT_{name}", raising=False)
