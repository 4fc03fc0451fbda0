"""One worker at one trial node of a study: which trial is next, the taking of it, the run, the report.

Guarantee: what was measured before, by whomever, is known and not measured again; a trial whose worker was lost comes
before a new one; what could not be measured is reported, not dropped, but where its node is gone: then it waits for
that one, or another.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from controlplane.contract.bodies.studies import (
    FINALIST,
    MEASURED,
    RunOrder,
    StudyCreate,
    Trial,
    TrialReport,
    TrialState,
)
from controlplane.contract.errors import TailwrightError
from controlplane.contract.knobs import difference
from tuner.replay.lost_cause import Bound
from tuner.replay.replay import Stopped
from tuner.search.charge import Budget, cheap_s, dear_s
from tuner.search.hopeless import bounds_of
from tuner.search.search import Candidate, Search
from tuner.study.remeasure import BLOCKS_CHANGES, WINNER
from tuner.study.time_plan import TimePlan
from tuner.study.trial_log import TrialLog
from tuner.study.trial_run import Bench, Measured

logger = logging.getLogger(__name__)
MOST_SAMPLES = 20_000
"""Of a metric that are reported of a run; a body of the API has 1 MiB at most."""
POLL_S = 0.5
"""How often is looked whether another worker has finished, where there is nothing else to do."""


class Measuring:
    """`own`: the study is this worker's, which waits for what others measure; else it helps, and leaves."""

    def __init__(
        self,
        spec: StudyCreate,
        bench: Bench,
        log: TrialLog,
        time_plan: TimePlan,
        *,
        stop: threading.Event,
        progress: Callable[[str], None],
        own: bool = True,
    ) -> None:
        self._spec, self.bench, self._log, self._time = spec, bench, log, time_plan
        self._node, self._stop, self._progress, self._own = bench.node, stop, progress, own

    # -- the search ----------------------------------------------------------------------------------------------

    def search(self, search: Search) -> str:
        """Measure what the search asks for; returns why it ended."""
        while True:
            self._log.read()
            # What was not replayed, a format that failed the quality gate among them, took no run's time.
            whole = [trial for trial in self._log.search if trial.measurement is not None and not trial.ended_early]
            self._time.run_s = [trial.took_s for trial in whole if trial.took_s is not None]
            search.catch_up(self._log.outcomes, self._log.pending)
            if self._log.is_finishing:
                return "its finish had begun"
            default = self._log.default
            if default is not None and default.objective_s is None:
                return without_default(default)
            asked = self._next(search)
            if isinstance(asked, str):
                if not search.waits or (not self._own and search.outcomes):
                    return asked
                if self._stop.wait(POLL_S):
                    raise Stopped("the study was stopped")
                continue
            kind = "search" if asked.number else "default"
            taken = self._log.take(asked.number, kind, asked.knobs, RunOrder())
            if taken is not None:
                self._measure(search, taken)

    def _next(self, search: Search) -> Candidate | str:
        """What to measure next, or why nothing."""
        lost = self._log.lost
        if lost is not None:
            return Candidate(lost.number, lost.knobs)
        reserve_s, run_s = self._time.reserve_s(self._changes_s(search)), self._time.usual_s
        left_s = self._time.left_s - reserve_s
        if search.outcomes and left_s < run_s:
            count = len(search.outcomes)
            return (
                f"out of time after {count} trial{'' if count == 1 else 's'}: a run takes about {run_s:.0f} s, and of "
                f"the {self._spec.max_duration_s:.0f} s of max_duration_s the finish is kept {reserve_s:.0f}"
            )
        found = search.ask(Budget(self._node.charge, run_s, left_s))
        return search.why_over() or search.why_none() if found is None else found

    def _measure(self, search: Search, trial: Trial) -> None:
        run_s = self._time.usual_s
        label = "the default" if trial.number == 0 else short(trial.knobs, search.default)
        charge_s = self._node.charge(trial.knobs)
        if charge_s > cheap_s(run_s):
            label += f" (the change takes about {charge_s:.0f} s)"
        self._progress(f"trial {trial.number + 1} of at most {self._spec.max_trials}: {label}")
        began, spent_s, asked_s = time.monotonic(), self._node.change_s, self.bench.asked_s
        # The default is what all else is held against: it is measured whole.
        measured = self._try(trial.knobs, bounds=bounds_of(self._spec, search.best()) if trial.number else ())
        if measured.ended_early:
            self._progress(f"trial {trial.number + 1} {measured.ended_early}")
        change_s = self._node.change_s - spent_s
        apart_s = dear_s(change_s, run_s) + self.bench.asked_s - asked_s
        self._report(trial, measured, change_s, time.monotonic() - began - apart_s)

    # -- the finish ----------------------------------------------------------------------------------------------

    def known(self, knobs: Mapping[str, Any], heat: int) -> Measured | None:
        """A run of the finish that was measured before."""
        found = self._log.finalist(heat, knobs)
        return None if found is None or found.state not in MEASURED else Measured.of(found)

    def again(self, knobs: dict[str, Any], order: RunOrder) -> Measured:
        """One run of the finish, from before or now."""
        assert order.heat is not None
        known = self.known(knobs, order.heat)
        if known is not None:
            return known
        taken = None
        while taken is None:
            begun = self._log.finalist(order.heat, knobs)
            number = self._log.next_number if begun is None else begun.number
            taken = self._log.take(number, FINALIST, knobs, order)
            if taken is None:  # A helper's last trial has taken the number.
                if self._stop.wait(POLL_S):
                    raise Stopped("the study was stopped")
                self._log.read()
        self._log.trials.append(taken)
        began, spent_s = time.monotonic(), self._node.change_s
        measured = self._try(taken.knobs, heat=order.heat)
        self._report(taken, measured, self._node.change_s - spent_s, time.monotonic() - began)
        return measured

    # -- one run -------------------------------------------------------------------------------------------------

    def _try(self, knobs: dict[str, Any], *, heat: int | None = None, bounds: Sequence[Bound] = ()) -> Measured:
        """One run; what keeps it from being measured is its error."""
        try:
            return self.bench.measure(knobs, heat=heat, bounds=bounds)
        except TailwrightError as error:
            self._node.check_there(error)
            logger.warning("run failed: %s", error.message)
            return Measured.failed(error.message)

    def _report(self, trial: Trial, measured: Measured, change_s: float, took_s: float) -> None:
        assessment = measured.assessment
        limited = {limit.metric for limit in self._spec.held} if trial.order.arm == WINNER else set()
        self._log.report(
            TrialReport(
                number=trial.number,
                kind=trial.kind,
                knobs=trial.knobs,
                state=TrialState.FAILED if measured.error else TrialState.COMPLETE,
                feasible=assessment.feasible,
                objective_s=assessment.objective_s,
                also_s=dict(assessment.also),
                violations={name: round(value, 6) for name, value in assessment.violations.items()},
                measurement=measured.measurement,
                quality=measured.quality,
                change_s=round(change_s, 3),
                took_s=round(took_s, 3),
                samples={metric: thinned(values) for metric, values in measured.samples.items() if metric in limited},
                ended_early=measured.ended_early,
                error=measured.error or measured.refused,
            )
        )

    def _changes_s(self, search: Search) -> float:
        """What going between the default and the best so far will cost in the re-measurement, at least."""
        best = search.best()
        if best is None or best.knobs == search.default:
            return 0.0
        return BLOCKS_CHANGES * dear_s(self._node.charge(best.knobs, search.default), self._time.usual_s)


def without_default(default: Trial) -> str:
    """Why a study whose default has failed ends: all else is held against it."""
    reason = default.error or "none of its answers has what the objective is of"
    return f"the default could not be measured, so nothing can be compared with it: {reason}"


def thinned(values: Sequence[float]) -> list[float]:
    """Microseconds are told; of very many values as many as can be sent, evenly out of their order."""
    if len(values) <= MOST_SAMPLES:
        return [round(value, 6) for value in values]
    ordered, step = sorted(values), len(values) / MOST_SAMPLES
    return [round(ordered[int((place + 0.5) * step)], 6) for place in range(MOST_SAMPLES)]


def short(knobs: Mapping[str, Any], default: Mapping[str, Any]) -> str:
    """What a configuration changes, in a few words."""
    found = difference(knobs, default, unreported=True)
    changed = [f"{name}={value}" for name, value in knobs.items() if name in found]
    return ", ".join(changed) or "as the default"
