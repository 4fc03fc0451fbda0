"""The service's own tokens are changed while it runs: nobody is cut off, and the one before ends."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from controlplane.app.own_tokens import LASTS, OVERLAP, OwnTokens
from controlplane.app.service import Service, create_app
from controlplane.app.settings import ServiceSettings
from controlplane.client import Client
from controlplane.client.bearer_file import BearerFile
from controlplane.command.up import UpSettings
from controlplane.contract.clock import utc_now
from controlplane.contract.errors import Unauthenticated
from tests.controlplane.telemetry.running_server import running as served

OWN = ("tuner-token", "dashboard-token")
HOUR = timedelta(hours=1)


class Running:
    """A service whose clock can be set forward, with its hourly deed done by hand."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.ahead = folder, timedelta(0)
        self.app = create_app(ServiceSettings(data_dir=folder, log_level="error"), clock=self.now)
        self.own = OwnTokens(Service.of(self.app).database, folder)

    def now(self) -> datetime:
        return utc_now() + self.ahead

    def after(self, time: timedelta) -> dict[str, str]:
        """What is in the files then."""
        self.ahead = time
        self.own.tick(self.now())
        return self.held()

    def held(self) -> dict[str, str]:
        return {name: (self.folder / name).read_text().strip() for name in ("admin-token", "enrolment-token", *OWN)}

    def status(self, token: str) -> int:
        headers = {"Authorization": f"Bearer {token}"}
        return TestClient(self.app).get("/api/v1/nodes", headers=headers).status_code


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    found = Running(tmp_path)
    yield found
    service = Service.of(found.app)
    service.telemetry.close()
    service.database.close()


def test_each_is_changed_after_thirty_days_and_the_one_before_ends_a_day_later(running: Running) -> None:
    first = running.held()
    assert running.after(LASTS - HOUR) == first
    second = running.after(LASTS + HOUR)
    assert {name for name in first if first[name] != second[name]} == set(OWN)
    assert all((running.folder / name).stat().st_mode & 0o777 == 0o600 for name in OWN)
    assert running.after(LASTS + OVERLAP) == second
    assert [running.status(held[name]) for held in (first, second) for name in OWN] == [200] * 4
    assert running.after(LASTS + OVERLAP + 2 * HOUR) == second
    assert [running.status(first[name]) for name in OWN] == [401, 401]
    assert [running.status(second[name]) for name in OWN] == [200, 200]
    # And so on, while it runs.
    third = running.after(2 * LASTS + 3 * HOUR)
    assert all(third[name] != second[name] for name in OWN)


def test_what_has_read_the_old_one_reads_the_file_again(running: Running) -> None:
    file = running.folder / "tuner-token"
    with (
        served(running.app) as url,
        Client(url, auth=BearerFile(file, file.read_text().strip())) as worker,
        Client(url, file.read_text().strip()) as other,
    ):
        assert list(worker.nodes()) == []
        running.after(LASTS + HOUR)
        running.after(LASTS + OVERLAP + 2 * HOUR)
        assert list(worker.nodes()) == []
        with pytest.raises(Unauthenticated):
            list(other.nodes())
        # Where the file has nothing else either, the refusal is told.
        running.after(2 * LASTS + 4 * HOUR)
        old = file.read_text()
        running.after(3 * LASTS + 5 * HOUR)
        running.after(3 * LASTS + OVERLAP + 6 * HOUR)
        file.write_text(old)
        with pytest.raises(Unauthenticated):
            list(worker.nodes())


def test_one_that_was_revoked_is_not_brought_back_by_it(running: Running) -> None:
    first = running.held()
    headers = {"Authorization": f"Bearer {first['admin-token']}"}
    http = TestClient(running.app)
    number = http.get("/api/v1/tokens/self", headers={"Authorization": f"Bearer {first['tuner-token']}"}).json()["id"]
    assert http.delete(f"/api/v1/tokens/{number}", headers=headers).status_code == 204
    assert running.after(LASTS + HOUR)["tuner-token"] == first["tuner-token"]
    assert running.status(first["tuner-token"]) == 401


def test_it_is_done_where_the_worker_runs_beside(tmp_path: Path) -> None:
    """Elsewhere the tokens were copied to another machine by hand, and a change would cut that off."""
    for tuner in (True, False):
        app = create_app(UpSettings(data_dir=tmp_path / str(tuner), log_level="error", tuner=tuner))
        service = Service.of(app)
        assert ("own_tokens" in service.background.report()) is tuner
        service.telemetry.close()
        service.database.close()
