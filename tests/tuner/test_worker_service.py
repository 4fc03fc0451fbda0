"""The worker against the real control plane: leases, failures and cancellation mean the same on both sides."""

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import uvicorn

from controlplane.app.service import create_app
from controlplane.app.settings import ServiceSettings
from controlplane.client import Client
from controlplane.contract.bodies.access import EnrolmentRequest
from controlplane.contract.bodies.studies import StudyCreate, StudyState, TrialReport, TrialState
from controlplane.contract.planning.trial_leases import NodeWanted, TrialWanted
from tuner.study.renewals import Lease
from tuner.study.worker import Worker

pytestmark = pytest.mark.slow


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    app = create_app(ServiceSettings(data_dir=tmp_path, log_level="error"))
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    server.should_exit = True
    thread.join(10)


@pytest.fixture
def client(url: str, tmp_path: Path) -> Iterator[Client]:
    with Client(url, (tmp_path / "enrolment-token").read_text().strip()) as enrolling:
        enrolling.enrol(EnrolmentRequest(node="s1", pool="p", backend="embedded"))
    with Client(url, (tmp_path / "admin-token").read_text().strip()) as found:
        yield found


def test_a_study_that_cannot_run_is_failed_with_its_reason(client: Client) -> None:
    created = client.create_study(StudyCreate(pool="p"))
    worker = Worker(client, "w")
    assert worker.once() and not worker.once()
    study = client.study(created.id)
    assert study.state is StudyState.FAILED and study.worker == "w"
    assert "no revision in production yet" in study.error


def test_a_lease_carries_news_and_ends_with_the_study(client: Client) -> None:
    created = client.create_study(StudyCreate(pool="p"))
    study = client.claim_study("w")
    assert study is not None and study.id == created.id
    with Lease(client, study, "w", every_s=0.05) as lease:
        lease.say(progress="half way", trial_node="t1", workload_summary={"requests": 3})
        until = time.monotonic() + 5
        while client.study(study.id).progress != "half way" and time.monotonic() < until:
            time.sleep(0.02)
        seen = client.study(study.id)
        assert (seen.progress, seen.trial_node, seen.workload_summary) == ("half way", "t1", {"requests": 3})
        token = client.take_trial_node(study.id, NodeWanted(worker="w", node="t1")).token
        client.take_trial(study.id, token, TrialWanted(number=0, kind="default", knobs={}))
        report = TrialReport(number=0, kind="default", knobs={}, state=TrialState.FAILED, error="crashed")
        assert client.report_trial(study.id, token, report).error == "crashed"
        client.cancel_study(study.id)
        assert lease.lost.wait(5)
    assert client.study(study.id).state is StudyState.CANCELLED
