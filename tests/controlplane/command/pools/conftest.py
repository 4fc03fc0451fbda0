"""A real service with a pool of two nodes that run a revision, and the command line that speaks to it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from controlplane.contract.bodies.configs import RevisionCreate
from controlplane.contract.clock import utc_now
from controlplane.db.database import Database
from controlplane.fleet import store as fleet
from tests.controlplane.command.nouns.plane import Plane
from tests.peers import service


@pytest.fixture
def plane(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Plane]:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    with service(tmp_path / "data") as running:
        made = Plane(running.url, running.token, running.http)
        made.enrol("gpu-1", "chat")
        made.enrol("gpu-2", "chat")
        database = Database(f"sqlite:///{tmp_path / 'data' / 'tailwright.db'}")
        with database.session() as session:
            before = fleet.create_revision(session, RevisionCreate(knobs={"max_num_seqs": 32}), "somebody", utc_now())
            fleet.set_pool_revision(session, "chat", before.number, utc_now())
        database.close()
        yield made
