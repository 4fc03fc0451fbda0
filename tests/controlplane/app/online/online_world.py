"""Nodes whose latency follows from what they run, time that passes, and the service's ticks over both."""

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any

from sqlmodel import Session, select

from controlplane.app.online import OnlineTuning
from controlplane.contract.bodies.configs import RevisionCreate
from controlplane.contract.bodies.rollouts import Rollout
from controlplane.contract.bodies.studies import Study, StudyCreate, StudyState, Trial
from controlplane.db.database import Database
from controlplane.fleet import store as fleet
from controlplane.ledger.tables import LedgerRow
from controlplane.rollouts import store as rollouts
from controlplane.rollouts.controller import RolloutController
from controlplane.studies import lease_store
from controlplane.studies import store as studies
from controlplane.studies.checks import check_study
from tests.controlplane.rollouts.conftest import START, Fleet
from tests.controlplane.telemetry.fake_reader import FakeReader

SEQS = "max_num_seqs"
SPEC: dict[str, Any] = {
    "pool": "chat",
    "objective": "e2e",
    "space": {SEQS: {"choices": [4, 8, 16, 32]}},
    "online": {},
    "rollout": {"min_judge_s": 15, "max_judge_s": 120, "wave_judge_s": 15, "tolerance": 0.5},
}
FALLING = {4: 8.0, 8: 4.0, 16: 1.0, 32: 3.0}
"""By max_num_seqs, how much slower it is."""


class Slowness(dict[int, float]):
    """By revision, how much slower it is: as the knob's value says."""

    def __init__(self, fleet_of: Fleet, by_value: Mapping[int, float]) -> None:
        self._fleet, self.by_value = fleet_of, by_value

    def get(self, revision: int, usual: float = 1.0) -> float:  # type: ignore[override]
        if revision not in self:
            with self._fleet.database.session() as session:
                self[revision] = self.by_value.get(fleet.revision(session, revision).knobs.max_num_seqs, usual)
        return self[revision]


class OnlineWorld:
    def __init__(self, database: Database) -> None:
        self.database, self.telemetry, self.now = database, FakeReader(), START
        self.fleet = Fleet(database, self.telemetry)
        self.poked = 0

    def prepare(self, *nodes: str, runs: int = 4, slower: Mapping[int, float] = FALLING) -> None:
        self.fleet.add(*(nodes or ("a", "b")))
        self.fleet.factor = Slowness(self.fleet, slower)
        self.fleet.put_in_production(self.fleet.revision(runs))
        views = self.fleet.views()
        for _ in range(24):
            self.fleet.serve(self.now, views=views)
            self.now += timedelta(seconds=5)

    def ask(self, **changes: Any) -> Study:
        spec = StudyCreate.model_validate({**SPEC, **changes})
        with self.database.session() as session:
            check_study(session, spec)
            return studies.create(session, spec, actor="ann", now=self.now)

    def tuning(self) -> OnlineTuning:
        """By a service that has just started."""

        def poke() -> None:
            self.poked += 1

        return OnlineTuning(self.database, self.telemetry, poke)

    def tick(self) -> None:
        self.tuning().tick(self.now)

    def pass_s(self, seconds: float = 5) -> None:
        """Nodes apply, traffic flows, and every tick is one of a new process."""
        for _ in range(int(seconds // 5)):
            self.fleet.apply()
            self.fleet.serve(self.now)
            self.now += timedelta(seconds=5)
            RolloutController(self.database, self.telemetry, lambda: None).tick(self.now)
            self.tick()
            self.tick()  # A repeated tick must change nothing.

    def until(self, done: Callable[[], bool], *, most_s: float = 3600) -> None:
        for _ in range(int(most_s // 5)):
            if done():
                return
            self.pass_s()
        raise AssertionError(f"never: {self.listed()}")

    def run(self, study: Study, *, most_s: float = 3600) -> Study:
        """To its end."""
        ended = (StudyState.FINISHED, StudyState.FAILED, StudyState.CANCELLED)
        self.until(lambda: self.read(study.id).state in ended and not self.under_way(), most_s=most_s)
        return self.read(study.id)

    def read(self, study_id: int) -> Study:
        with self.database.session() as session:
            return studies.get(session, study_id)

    def trials(self, study_id: int) -> list[Trial]:
        """In their order."""
        with self.database.session() as session:
            return lease_store.trials(session, study_id, before_id=None, limit=100)[::-1]

    def tried(self, study_id: int) -> list[tuple[int, str | None]]:
        """The value of each step, and what came of it."""
        steps = [trial.step for trial in self.trials(study_id) if trial.step is not None]
        return [(step.value, None if step.outcome is None else step.outcome.value) for step in steps]

    def listed(self) -> list[Rollout]:
        """The oldest first."""
        with self.database.session() as session:
            return rollouts.listing(session, before_id=None, limit=100)[::-1]

    def under_way(self) -> Rollout | None:
        with self.database.session() as session:
            return rollouts.active(session, "chat")

    def production(self) -> int:
        """What max_num_seqs is in production."""
        number = self.fleet.production()
        assert number is not None
        with self.database.session() as session:
            return fleet.revision(session, number).knobs.max_num_seqs

    def revision(self, **knobs: Any) -> int:
        with self.database.session() as session:
            return fleet.create_revision(session, RevisionCreate(knobs=knobs), "test", self.now).number

    def told(self, kind: str) -> list[str]:
        """Messages of the ledger, the oldest first."""
        with Session(self.database.engine) as session:
            return [row.message for row in session.exec(select(LedgerRow).where(LedgerRow.kind == kind))]

    def at(self, seconds: float) -> datetime:
        return self.now + timedelta(seconds=seconds)
