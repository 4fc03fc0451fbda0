"""What a node is told while it runs what nobody has judged to the end, and what it tells of its way back."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from controlplane import ledger
from controlplane.auth import Principal
from controlplane.auth.principal import authenticate
from controlplane.contract.bodies.access import EnrolmentRequest
from controlplane.contract.bodies.configs import RevisionCreate
from controlplane.contract.bodies.nodes import ConfigStatus, EffectiveConfig, NodeRole
from controlplane.contract.reports.opamp import ENGINE_CONFIG, LEASE_ENDED
from controlplane.db.database import Database
from controlplane.fleet import machine
from controlplane.fleet import store as fleet
from controlplane.fleet.enrolling.minute_pace import Pace
from controlplane.fleet.opamp import session as opamp
from controlplane.fleet.opamp import wire

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
TERMS = opamp.Terms(Pace(10), 30.0, 45.0)


class Pool:
    """One serving node and one of trial, both in a pool whose revision is `promoted`; `trial` is another one."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.principals: dict[str, Principal] = {}
        self.sequence = 0
        with database.session() as session:
            for node in NodeRole:
                wanted = EnrolmentRequest(node=node.value, pool="p", backend="embedded", role=node.value)
                token = fleet.enrol(session, wanted, actor="me", now=NOW)
                session.commit()
                self.principals[node.value] = authenticate(database, f"Bearer {token}", NOW)
            self.promoted, self.trial = (
                fleet.create_revision(session, RevisionCreate(knobs={"max_num_seqs": seqs}), "me", NOW)
                for seqs in (3, 7)
            )
            fleet.set_pool_revision(session, "p", self.promoted.number, NOW)

    def overridden(self, number: int | None, node: str = "serving") -> None:
        with self.database.session() as session:
            fleet.set_override(session, [node], number, NOW)

    def promote(self) -> None:
        with self.database.session() as session:
            fleet.set_pool_revision(session, "p", self.trial.number, NOW)
            fleet.set_override(session, ["serving"], None, NOW)

    def says(self, config: machine.Acknowledged | None = None, runs: int = 0, node: str = "serving") -> wire.Reply:
        """One exchange."""
        self.sequence += 1
        report = wire.AgentReport(
            instance_uid="00" * 16,
            sequence_num=self.sequence,
            effective=EffectiveConfig(revision=runs, knobs={}) if runs else None,
            config=config,
        )
        asked = opamp.Asked(self.principals[node], report, NOW, opamp.Came())
        return opamp.answer(self.database, asked, TERMS).reply


@pytest.fixture
def pool(database: Database) -> Pool:
    return Pool(database)


def sent(reply: wire.Reply) -> tuple[str, dict[str, Any]]:
    """Hash and body as they go over the wire."""
    remote = wire.encode(reply).remote_config
    return remote.config_hash.decode(), json.loads(remote.config.config_map[ENGINE_CONFIG].body)


def test_a_canary_is_offered_on_a_lease_once_and_its_promotion_ends_that(pool: Pool) -> None:
    pool.overridden(pool.trial.number)
    hash_, body = sent(pool.says())
    assert body["revision"] == pool.trial.number
    assert body["lease"]["duration_s"] == 45.0
    assert body["lease"]["promoted"]["knobs"]["max_num_seqs"] == 3
    applied = machine.Acknowledged(hash_, ConfigStatus.APPLIED)
    assert pool.says(applied, pool.trial.number).offer is None
    # A service that was started anew knows no more than the database does.
    assert pool.says(applied).offer is None
    pool.promote()
    hash_, body = sent(pool.says(applied))
    assert body["revision"] == pool.trial.number and "lease" not in body
    assert pool.says(machine.Acknowledged(hash_, ConfigStatus.APPLIED)).offer is None


def test_a_trial_node_s_revision_is_its_own_for_as_long_as_its_study_wants(pool: Pool) -> None:
    pool.overridden(pool.trial.number, "trial")
    _, body = sent(pool.says(node="trial"))
    assert body["revision"] == pool.trial.number and "lease" not in body


def test_what_a_node_did_by_itself_is_an_entry_of_its_own_and_is_not_undone(pool: Pool) -> None:
    pool.overridden(pool.trial.number)
    hash_, _ = sent(pool.says())
    pool.says(machine.Acknowledged(hash_, ConfigStatus.APPLIED), pool.trial.number)
    error = f"{LEASE_ENDED}the control plane was not heard for 45 s, back to revision 1"
    left = machine.Acknowledged(hash_, ConfigStatus.FAILED, error)
    assert pool.says(left, pool.promoted.number).offer is None, "its rollout decides, it is not given it again"
    assert pool.says(left).offer is None
    with pool.database.read_session() as session:
        view = fleet.node(session, "serving")
        entries = ledger.entries(session, before_id=None, limit=9, subject="node/serving")
    assert (view.config_status, view.config_error) == (ConfigStatus.FAILED, error)
    (entry,) = [entry for entry in entries if entry.kind == opamp.CONFIG_LEFT]
    assert entry.message == f"revision {pool.trial.number} was left: {error}"
    assert entry.evidence["revision"] == pool.trial.number
    assert entry.evidence["effective_revision"] == pool.promoted.number
    assert not [entry for entry in entries if entry.kind == opamp.CONFIG_FAILED], "no engine has failed"
    pool.overridden(None)
    _, body = sent(pool.says(left))
    assert body["revision"] == pool.promoted.number and "lease" not in body
