"""A real service without nodes, and the command line that speaks to it; a fresh one for each test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.controlplane.command.nouns.plane import Plane
from tests.peers import service


@pytest.fixture
def plane(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Plane]:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    with service(tmp_path / "data") as running:
        yield Plane(running.url, running.token, running.http)
