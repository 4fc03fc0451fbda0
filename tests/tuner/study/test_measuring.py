"""What a run takes is its own time: what is asked once, or never replayed, does not count as what each would take."""

import threading
from types import SimpleNamespace
from typing import Any, cast

import pytest

from controlplane.contract.bodies.studies import RunOrder, StudyCreate, TrialReport
from controlplane.contract.errors import TailwrightError
from controlplane.contract.knobs import EngineConfig
from tuner.replay.replay import Stopped
from tuner.search.objective import Assessment
from tuner.search.search import Candidate
from tuner.study import measuring as module
from tuner.study.measuring import Measuring
from tuner.study.time_plan import TimePlan
from tuner.study.trial_node import ApplyFailed
from tuner.study.trial_run import Measured

DEFAULT = EngineConfig().knobs()
INT8 = DEFAULT | {"quantization": "int8"}
SPEC = StudyCreate(pool="p", max_duration_s=600)
RUN_S, ASKING_S = 10.0, 90.0


class Bench:
    """Whose quality gate asks for long, the first time that a configuration is quantized. refuses: and lets none be."""

    def __init__(self, now: list[float], *, refuses: bool = False) -> None:
        self.node = SimpleNamespace(name="t1", change_s=0.0, charge=lambda *_: 0.0, check_there=lambda _: None)
        self.asked_s, self._now, self._refuses = 0.0, now, refuses

    def measure(self, knobs: dict[str, Any], **_: Any) -> Measured:
        if knobs["quantization"] != "none" and not self.asked_s:
            self.asked_s = ASKING_S
            self._now[0] += ASKING_S
            if self._refuses:
                return Measured(Assessment(None, {}), refused="not replayed")
        self._now[0] += RUN_S
        measurement: Any = {
            "requests": 5,
            "errors": 0,
            "duration_s": RUN_S,
            "quantiles": {},
            "output_tokens_per_s": 1.0,
        }
        return Measured(Assessment(0.1, {}), measurement)


class Log:
    """Of one worker."""

    lost, is_finishing, outcomes, pending = None, False, (), ()

    next_number = 0

    def __init__(self) -> None:
        self.search: list[TrialReport] = []
        self.trials: list[Any] = []

    @property
    def default(self) -> TrialReport | None:
        return next(iter(self.search), None)

    def read(self) -> None:
        pass

    def finalist(self, *_: object) -> None:
        pass

    def take(self, number: int, kind: str, knobs: dict[str, Any], _: object) -> Any:
        return SimpleNamespace(number=number, kind=kind, knobs=knobs, order=SimpleNamespace(arm=""))

    def report(self, told: TrialReport) -> None:
        self.search.append(told)


def measured(
    monkeypatch: pytest.MonkeyPatch,
    tried: list[dict[str, Any]],
    *,
    refuses: bool = False,
    spec: StudyCreate = SPEC,
    ends: str = "all were tried",
) -> Any:
    """The log and the plan of time after these, one after the other; the first is the default."""
    now = [0.0]
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: now[0]))
    log, plan = Log(), TimePlan(spec, clock=lambda: now[0])
    left = [Candidate(number, knobs) for number, knobs in enumerate(tried)]
    search = SimpleNamespace(
        default=tried[0],
        outcomes=(),
        waits=False,
        best=lambda: None,
        catch_up=lambda *_: None,
        ask=lambda _: left.pop(0) if left else None,
        why_over=lambda: "all were tried",
    )
    bench: Any = Bench(now, refuses=refuses)
    worker = Measuring(spec, bench, cast(Any, log), plan, stop=threading.Event(), progress=lambda _: None)
    search.catch_up = lambda *_: setattr(search, "outcomes", log.search)
    assert worker.search(cast(Any, search)) == ends
    return log, plan


def test_what_the_quality_gate_asks_once_is_no_part_of_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pool that runs quantized has it in the default's run: each pair of the finish was planned to take as long."""
    log, plan = measured(monkeypatch, [INT8, DEFAULT, INT8])
    assert [told.took_s for told in log.search] == plan.run_s == [RUN_S, RUN_S, RUN_S]
    assert plan.pair_s == 2 * RUN_S and plan.spent_s == 3 * RUN_S + ASKING_S, "it is spent all the same"


def test_what_was_not_replayed_is_no_run(monkeypatch: pytest.MonkeyPatch) -> None:
    log, plan = measured(monkeypatch, [DEFAULT, INT8, DEFAULT], refuses=True)
    assert [told.took_s for told in log.search] == [RUN_S, 0.0, RUN_S]
    assert plan.run_s == [RUN_S, RUN_S] and plan.usual_s == RUN_S


def test_without_a_default_to_hold_it_against_nothing_else_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pool that runs a format which its study's own gate refuses: each further trial would have been for nothing."""
    ends = "the default could not be measured, so nothing can be compared with it: not replayed"
    log, _ = measured(monkeypatch, [INT8, DEFAULT, DEFAULT], refuses=True, ends=ends)
    assert len(log.search) == 1


@pytest.mark.parametrize("is_there", [True, False])
def test_what_a_node_that_is_gone_does_not_run_is_no_failed_trial(
    monkeypatch: pytest.MonkeyPatch, is_there: bool
) -> None:
    def check_there(error: TailwrightError) -> None:
        if not is_there:
            raise Stopped(f"trial node t1 is gone ({error.message})")

    def measure(self: Bench, knobs: dict[str, Any], **_: Any) -> Measured:
        self.node.check_there = check_there
        raise ApplyFailed("t1 does not run the wanted configuration after 30 s")

    told: list[TrialReport] = []
    monkeypatch.setattr(Bench, "measure", measure)
    monkeypatch.setattr(Log, "report", lambda _, one: told.append(one))
    log: Any = Log()
    worker = Measuring(
        SPEC, cast(Any, Bench([0.0])), log, TimePlan(SPEC), stop=threading.Event(), progress=lambda _: None
    )
    if is_there:
        assert "after 30 s" in worker.again(DEFAULT, RunOrder(heat=0)).error
        assert [one.state for one in told] == ["failed"]
    else:
        with pytest.raises(Stopped, match="trial node t1 is gone"):
            worker.again(DEFAULT, RunOrder(heat=0))
        assert not told, "the configuration has done nothing wrong"


def test_where_time_is_up_it_is_said_what_it_would_have_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three finalists' heats, three pairs of two runs, and nothing is left for a third trial."""
    ends = (
        "out of time after 2 trials: a run takes about 10 s, and of the 125 s of max_duration_s the finish is kept 120"
    )
    log, _ = measured(monkeypatch, [DEFAULT] * 4, spec=SPEC.model_copy(update={"max_duration_s": 125}), ends=ends)
    assert len(log.search) == 2
