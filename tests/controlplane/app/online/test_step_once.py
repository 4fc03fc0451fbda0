"""A step begins once: wherever the service was killed, and however many replicas step."""

import os
import signal
import threading
from collections.abc import Callable

import pytest
from sqlalchemy import event
from sqlmodel import Session

from controlplane.app.online import OnlineTuning
from controlplane.contract.bodies.rollouts import RolloutPhase
from controlplane.db.database import Database
from controlplane.rollouts.tables import RolloutRow
from tests.controlplane.app.online.online_world import OnlineWorld

pytestmark = pytest.mark.slow

MOMENTS: dict[str, tuple[str, Callable[[Session], bool]]] = {
    "the rollout is written, the step is not": ("after_flush", lambda session: _writes(session, RolloutRow)),
    "both are written, and not committed": ("before_commit", lambda session: not session.in_nested_transaction()),
    "both are committed, and no agent is poked": ("after_commit", lambda session: not session.in_nested_transaction()),
}


def _writes(session: Session, table: type) -> bool:
    return any(isinstance(row, table) for row in session.new)


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_kill_leaves_a_step_with_its_rollout_or_neither(world: OnlineWorld, moment: str) -> None:
    world.prepare()
    study = world.ask()
    world.tick()
    when, holds = MOMENTS[moment]
    world.database.close()  # No connection is shared with the one that dies.
    child = os.fork()
    if child == 0:

        def die(session: Session, *_: object) -> None:
            if holds(session):
                os.kill(os.getpid(), signal.SIGKILL)

        event.listen(Session, when, die)
        OnlineTuning(Database(world.database.url), world.telemetry, lambda: None).tick(world.now)
        os._exit(1)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
    kept = 1 if when == "after_commit" else 0
    assert (len(world.listed()), len(world.trials(study.id))) == (kept, kept)
    world.tick()
    world.tick()
    listed, trials = world.listed(), world.trials(study.id)
    assert [(one.spec.study_step, one.phase) for one in listed] == [(1, RolloutPhase.VALIDATING)]
    assert [trial.step.rollout_id for trial in trials if trial.step] == [listed[0].id]


@pytest.mark.parametrize("database", ["sqlite", "postgresql"], indirect=True)
def test_of_several_replicas_one_begins_the_step(world: OnlineWorld) -> None:
    world.prepare()
    study = world.ask()
    world.tick()
    start, replicas = threading.Barrier(3), [Database(world.database.url) for _ in range(3)]

    def step(database: Database) -> None:
        tuning = OnlineTuning(database, world.telemetry, lambda: None)
        start.wait()
        tuning.tick(world.now)

    threads = [threading.Thread(target=step, args=(one,)) for one in replicas]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for one in replicas:
        one.close()
    assert len(world.listed()) == 1 and [trial.number for trial in world.trials(study.id)] == [1]
    assert (
        world.read(study.id).progress
        == f"step 1: max_num_seqs from 4 to 8, rollout {world.listed()[0].id} is validating"
    )
