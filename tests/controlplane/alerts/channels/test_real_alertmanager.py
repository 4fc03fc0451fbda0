"""A real Alertmanager takes our alerts, knows two letters of one for the same, and is told when it is over."""

import shutil
import subprocess
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from controlplane.alerts.channels.channel import Address, Letter, Notification, Status
from controlplane.alerts.channels.registry import CHANNELS
from controlplane.alerts.notify.one_attempt import Attempt, Carriers, attempt
from controlplane.contract.bodies.alerts import Alert, AlertState
from controlplane.contract.channels.destination_kinds import DestinationKind
from controlplane.contract.clock import utc_now
from controlplane.outgoing import ANYWHERE, new_client
from tests.alerts_made import alert_made, ugly_alert
from tests.processes import free_port, wait_for

PROGRAM = shutil.which("prometheus-alertmanager") or shutil.which("alertmanager")
CONFIG = "route: {receiver: nobody, group_wait: 1h}\nreceivers: [{name: nobody}]\n"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(PROGRAM is None, reason="no Alertmanager here (deploy/test_packages.sh installs it)"),
]


@pytest.fixture(scope="module")
def alertmanager(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder: Path = tmp_path_factory.mktemp("alertmanager")
    (folder / "am.yml").write_text(CONFIG)
    port = free_port()
    assert PROGRAM is not None
    command = [PROGRAM, f"--config.file={folder}/am.yml", f"--storage.path={folder}/data", "--cluster.listen-address="]
    with subprocess.Popen([*command, f"--web.listen-address=127.0.0.1:{port}"], stderr=subprocess.DEVNULL) as process:
        url = f"http://127.0.0.1:{port}"
        try:
            wait_for("Alertmanager is ready", lambda: _is_ready(url))
            yield url
        finally:
            process.terminate()


def _is_ready(url: str) -> bool:
    try:
        return httpx.get(f"{url}/-/ready").status_code == 200
    except httpx.HTTPError:
        return False


def send(url: str, alert: Alert, status: Status) -> Attempt:
    now = utc_now()
    body = CHANNELS[DestinationKind.ALERTMANAGER].render(Notification(alert, status, "am", "https://t.test", now))
    letter = Letter(1, DestinationKind.ALERTMANAGER, status, alert.fingerprint, body, "k")
    with new_client(10.0, ANYWHERE) as http:
        return attempt(Carriers(http, ANYWHERE), letter, Address(url), now)


def known(url: str, fingerprint: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = httpx.get(f"{url}/api/v2/alerts").raise_for_status().json()
    return [one for one in found if one["labels"]["tailwright_fingerprint"] == fingerprint]


def test_one_alert_is_one_there_until_it_is_over(alertmanager: str) -> None:
    began = utc_now() - timedelta(seconds=60)
    alert = alert_made(fingerprint="aa", started_at=began, fired_at=began)
    assert send(alertmanager, alert, Status.FIRING) == Attempt()
    assert send(alertmanager, alert.model_copy(update={"summary": "worse"}), Status.FIRING) == Attempt()
    (there,) = known(alertmanager, "aa")
    assert there["labels"]["alertname"] == "Latency regression" and there["annotations"]["summary"] == "worse"
    assert there["status"]["state"] in ("active", "unprocessed")
    over = alert.model_copy(update={"state": AlertState.RESOLVED, "resolved_at": utc_now()})
    assert send(alertmanager, over, Status.RESOLVED) == Attempt()
    assert known(alertmanager, "aa") == []


def test_it_takes_whatever_an_alert_says(alertmanager: str) -> None:
    alert = ugly_alert().model_copy(update={"started_at": utc_now()})
    assert send(alertmanager, alert, Status.FIRING) == Attempt()
    assert len(known(alertmanager, "f" * 16)) == 1
