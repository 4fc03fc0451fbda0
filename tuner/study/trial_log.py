"""A study's trials as the service keeps them: what was measured, what others measure, and the taking of the next.

Guarantee: what this worker measures is its own, on a node that it holds; a trial that another has taken or measured is
never measured here; a report under a lost lease ends the work.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

from controlplane.client import Client
from controlplane.contract.bodies.studies import FINALIST, MEASURED, RunOrder, Trial, TrialReport, TrialState
from controlplane.contract.errors import Conflict
from controlplane.contract.planning.trial_leases import TrialWanted
from tuner.replay.replay import Stopped
from tuner.search.objective import Assessment
from tuner.search.search import Outcome
from tuner.study.renewals import NodeHold, tried_again


class TrialLog:
    """One worker's sight of a study. `trials`: all, by number, as they were last read."""

    def __init__(self, client: Client, study_id: int, hold: NodeHold, stop: threading.Event) -> None:
        self.trials: list[Trial] = []
        self._client, self._study_id, self._hold, self._stop = client, study_id, hold, stop

    def read(self) -> None:
        found = tried_again(lambda: self._client.trials(self._study_id, samples=True), self._stop)
        self.trials = sorted(found, key=lambda trial: trial.number)

    @property
    def next_number(self) -> int:
        return len(self.trials)

    @property
    def search(self) -> list[Trial]:
        """Those of the search, the default's first."""
        return [trial for trial in self.trials if trial.kind != FINALIST]

    @property
    def default(self) -> Trial | None:
        """The default's, once it was measured or has failed."""
        return next((trial for trial in self.search if trial.number == 0 and trial.state in MEASURED), None)

    @property
    def outcomes(self) -> list[Outcome]:
        """Of the search, what was measured."""
        return [
            Outcome(trial.number, trial.knobs, Assessment(trial.objective_s, trial.violations, trial.also_s))
            for trial in self.search
            if trial.state in MEASURED
        ]

    @property
    def pending(self) -> dict[int, dict[str, Any]]:
        """Of the search, what others measure."""
        return {trial.number: trial.knobs for trial in self.search if trial.state is TrialState.RUNNING}

    @property
    def lost(self) -> Trial | None:
        """Of the search, the first whose worker was lost."""
        return next((trial for trial in self.search if trial.state is TrialState.WAITING), None)

    @property
    def is_finishing(self) -> bool:
        return any(trial.kind == FINALIST for trial in self.trials)

    def finalist(self, heat: int, knobs: Mapping[str, Any]) -> Trial | None:
        """The finish's run of this configuration in this heat, measured or not."""
        own = (trial for trial in self.trials if trial.kind == FINALIST and trial.order.heat == heat)
        return next((trial for trial in own if trial.knobs == knobs), None)

    def take(self, number: int, kind: str, knobs: dict[str, Any], order: RunOrder) -> Trial | None:
        """The trial, which is now this worker's; None when another was quicker. Raises Stopped."""
        wanted = TrialWanted(number=number, kind=kind, knobs=knobs, order=order)
        try:
            return tried_again(lambda: self._client.take_trial(self._study_id, self._hold.token, wanted), self._stop)
        except Conflict as error:
            if error.detail.get("field") == "number":
                return None
            raise self._over(error) from error

    def report(self, report: TrialReport) -> None:
        """Raises Stopped when it does not count."""
        try:
            tried_again(lambda: self._client.report_trial(self._study_id, self._hold.token, report), self._stop)
        except Conflict as error:
            raise self._over(error) from error

    def _over(self, error: Conflict) -> Stopped:
        """The study has ended, or the node is another's."""
        if error.detail.get("reason", error.detail.get("field")) in ("token", "lease_ended"):
            self._hold.lose(error.message)
        self._hold.lost.set()
        return Stopped(error.message)
