"""Real workers, killed at each trial, heat and pair: the next goes on, and nothing is measured twice."""

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sse_engine import SseEngine
from study_service import StudyService

from controlplane.contract.bodies.studies import StudyCreate, StudyState, StudyVerdict, TrialState
from controlplane.contract.knobs import EngineConfig
from controlplane.studies import machine
from tests.processes import wait_for
from tuner.workload.generate import CONV, fitted, generate

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
BAD = EngineConfig(max_num_batched_tokens=24).knobs()
WORKLOAD = generate(fitted(CONV, max_input=256, max_output=8), seed=1, rate_per_s=12, requests=60)
SPEC: dict[str, Any] = {
    "pool": "p",
    "objective": "ttft",
    "constraints": [{"metric": "itl", "q": 0.99, "limit_s": 0.5}],
    "space": {"max_num_batched_tokens": {"choices": [24, 128, 512]}},
    "max_trials": 3,
    "max_duration_s": 120,
    "trial_requests": 6,
    "finalists": 2,
    "finalist_repeats": 2,
}


class Nursery:
    """Workers in processes of their own, forked from one that has imported everything."""

    def __init__(self) -> None:
        self._children: list[int] = []
        self._process = subprocess.Popen(
            [sys.executable, str(ROOT / "tests/tuner/worker_nursery.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        assert self._line() == "ready"

    def close(self) -> None:
        self.kill_all()
        self._process.kill()
        self._process.wait()

    def kill_all(self) -> None:
        for child in self._children:
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
        self._children.clear()

    def start(self, service: StudyService, told: Path, name: str, **how: Any) -> int:
        assert self._process.stdin is not None
        what = {"url": service.url, "token": service.token, "name": name, "told": str(told), **how}
        self._process.stdin.write(json.dumps(what) + "\n")
        self._process.stdin.flush()
        self._children.append(int(self._line()))
        return self._children[-1]

    def _line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()


@pytest.fixture(scope="module")
def forked() -> Iterator[Nursery]:
    made = Nursery()
    yield made
    made.close()


@pytest.fixture
def nursery(forked: Nursery) -> Iterator[Nursery]:
    yield forked
    forked.kill_all()


@pytest.fixture
def told(tmp_path: Path) -> Path:
    """Where workers write what they do."""
    path = tmp_path / "told"
    path.touch()
    return path


def _said(told: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in told.read_text().splitlines()]


def _runs(service: StudyService) -> Counter[tuple[str, int | None, int]]:
    return Counter((trial.kind, trial.order.heat, trial.knobs["max_num_batched_tokens"]) for trial in service.trials)


def test_a_study_whose_workers_are_killed_at_each_trial_measures_none_twice(
    engine: SseEngine, nursery: Nursery, told: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "LEASE_S", 0.6)
    with StudyService([engine], StudyCreate.model_validate(SPEC), WORKLOAD, BAD, ticks=True) as service:
        killed = 0
        while service.study.state is not StudyState.FINISHED:
            # In the middle of the second trial, then just after the report of the first, and so on.
            how = {"measures": 1, "point": "replaying" if killed % 2 == 0 else "reported"}
            name = f"w{killed}"
            child = nursery.start(service, told, name, **how)

            def stands(name: str = name) -> bool:
                said = [one for one in _said(told) if one["worker"] == name and "stands" in one]
                return bool(said) or service.study.state is StudyState.FINISHED

            wait_for(f"worker {name} stands still, or has finished", stands, 30)
            if service.study.state is not StudyState.FINISHED:
                os.kill(child, signal.SIGKILL)
                killed += 1
            assert killed < 30
        study, trials = service.study, service.trials
        runs = _runs(service)
    assert study.result is not None and study.result.verdict is StudyVerdict.BETTER, study.error
    assert study.result.repeats == 2 and study.rollout_id == 4 and len(service.rollouts) == 1
    # Default and two trials; a heat of two finalists, of which one is far behind, and another; two pairs: each once.
    assert set(runs.values()) == {1} and [trial.number for trial in trials] == list(range(10))
    assert [kind for kind, heat, _ in runs if heat is None] == ["default", "search", "search"]
    assert sorted(heat for _, heat, _ in runs if heat is not None) == [0, 0, 1, 2, 2, 3, 3]
    measured = Counter(one["number"] for one in _said(told) if "number" in one)
    assert measured == Counter(range(10)), "what was reported was measured again"
    assert killed >= 9 and sum(trial.takings for trial in trials) == 10 + (killed + 1) // 2
    assert len({trial.worker for trial in trials}) == killed


def test_two_workers_share_a_study_and_another_study_waits_for_a_node_that_nobody_holds(
    engine: SseEngine, nursery: Nursery, told: Path
) -> None:
    budgets = {"max_num_batched_tokens": {"choices": [24, 48, 96, 128, 256, 384, 512, 768]}}
    spec = StudyCreate.model_validate(SPEC | {"max_trials": 6, "space": budgets})
    with (
        SseEngine() as other,
        SseEngine() as late,
        StudyService([engine, other], spec, WORKLOAD, BAD, ticks=True) as service,
    ):
        nursery.start(service, told, "first", measures=1, point="reported")
        wait_for("the first has measured the default", lambda: service.trials, 30)
        nursery.start(service, told, "second", measures=2, point="replaying")
        wait_for("the second is at its third trial", lambda: service.study.trials_done == 3, 30)
        service.add_pool("q")
        second = service.create(spec.model_copy(update={"pool": "q"}))
        third = nursery.start(service, told, "third")
        waits = "waits for a trial node: t1 is held for study 1 by 'first'; t2 is held for study 1 by 'second'"
        wait_for("the other study waits", lambda: service.read(second).progress == waits, 30)
        late.knobs = dict(BAD)
        service.engines["t3"] = late
        wait_for("it takes a node that has come since", lambda: service.read(second).trial_node == "t3", 30)
        os.kill(third, signal.SIGKILL)
        # The default on the first node, two trials of the second on the other, and its third under way.
        assert [(trial.node, trial.worker) for trial in service.all_trials] == [
            ("t1", "first"), ("t2", "second"), ("t2", "second"), ("t2", "second"),
        ]  # fmt: skip
        assert len({trial.knobs["max_num_batched_tokens"] for trial in service.all_trials}) == 4
        assert service.all_trials[-1].state is TrialState.RUNNING


def test_a_helper_leaves_when_the_search_is_over_and_gives_the_node_to_the_next_study(
    engine: SseEngine, nursery: Nursery, told: Path
) -> None:
    with (
        SseEngine() as other,
        StudyService([engine, other], StudyCreate.model_validate(SPEC), WORKLOAD, BAD, ticks=True) as service,
    ):
        nursery.start(service, told, "first", measures=1, point="reported")
        wait_for("the first has measured the default", lambda: service.trials, 30)
        nursery.start(service, told, "second")
        wait_for("the second has measured the others", lambda: service.study.trials_done == 3, 30)
        service.add_pool("q")
        second = service.create(StudyCreate.model_validate(SPEC | {"pool": "q"}))
        wait_for("it has claimed the other study", lambda: service.read(second).trials_done, 30)
        assert service.read(second).trial_node == "t2" and service.read(second).worker == "second"
