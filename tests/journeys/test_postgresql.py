"""The same service on PostgreSQL: telemetry counted exactly through a kill, a change of configuration, a study."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from controlplane.contract.bodies.configs import RevisionCreate
from controlplane.contract.bodies.rollouts import RolloutCreate, RolloutPhase, Verdict
from controlplane.contract.bodies.studies import StudyCreate, StudyState
from tests.journeys.datum import Datum
from tests.processes import wait_for

POOL = "journey"


@pytest.fixture
def datum(tmp_path: Path, postgres_schema_url: str) -> Iterator[Datum]:
    made = Datum(tmp_path, "--database-url", postgres_schema_url)
    try:
        made.start("service")
        made.start("engine")
        made.start("agent")
        yield made
    finally:
        made.end()


def test_the_loop_runs_on_postgresql(datum: Datum) -> None:
    with datum.client() as client:
        wait_for("the node is healthy", lambda: any(node.healthy and node.effective for node in client.nodes()))
        with ThreadPoolExecutor(1) as pool:
            running = pool.submit(datum.traffic, 60)
            time.sleep(1.5)
            datum.kill("service")
            datum.start("service")
            running.result()
        datum.assert_all_is_counted_once()

        revision = client.create_config(RevisionCreate(knobs={"max_num_seqs": 8}, base=1)).number
        wanted = RolloutCreate(pool=POOL, revision=revision, emergency=True, reason="the journey")
        number = client.create_rollout(wanted).id
        wait_for("the rollout ends", lambda: client.rollout(number).phase is RolloutPhase.PROMOTED, 20)
        assert client.rollout(number).verdict is Verdict.UNJUDGED
        effective = client.node("node-1").effective
        assert effective is not None and (effective.revision, effective.knobs["max_num_seqs"]) == (revision, 8)

        study = client.create_study(StudyCreate(pool=POOL, objective_q=0.5, trial_requests=5))
        assert study.state is StudyState.QUEUED
        claimed = client.claim_study("journey")
        assert claimed is not None and (claimed.id, claimed.state) == (study.id, StudyState.RUNNING)
        kinds = {entry.kind for entry in client.ledger()}
        assert {"rollout.created", "rollout.promoted", "study.created"} <= kinds
    assert not (datum.folder / "data/tailwright.db").exists()
