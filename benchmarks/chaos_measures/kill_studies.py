"""Studies one after another while the tuner, the engine and the service are killed: each must end, no trial twice."""

import threading
import time
from collections import Counter

import httpx

from controlplane.client import Client
from controlplane.contract.bodies.studies import KnobRange, Study, StudyCreate, StudyState
from controlplane.contract.errors import TailwrightError

STUCK_S = 420.0
_ENDED = {StudyState.FINISHED, StudyState.FAILED, StudyState.CANCELLED}
_POLL_S = 1.0


class Studies:
    """Small studies of `pool`, until `close`, which waits for the one under way. ended: by state."""

    def __init__(self, client: Client, pool: str) -> None:
        self.ended: Counter[str] = Counter()
        self.stuck: list[str] = []
        self._client, self._pool = client, pool
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._stop.set()
        self._thread.join(2 * STUCK_S)

    def check(self) -> list[str]:
        """Trials that were counted twice, and studies that say they have finished and have no result."""
        found = []
        for study in self._client.studies():
            numbers = Counter((one.kind, one.number) for one in self._client.trials(study.id))
            found += [f"study {study.id}: trial {key} {times} times" for key, times in numbers.items() if times > 1]
            if study.state is StudyState.FINISHED and study.result is None:
                found.append(f"study {study.id} has finished without a result")
        return found

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self._one()
            except (TailwrightError, httpx.HTTPError):
                time.sleep(_POLL_S)  # Killed or held: look again.

    def _one(self) -> None:
        open_ones = [one for one in self._client.studies() if one.state not in _ENDED]
        study = open_ones[0] if open_ones else self._client.create_study(self._wanted())
        began = time.monotonic()
        while study.state not in _ENDED:
            if time.monotonic() - began > STUCK_S:
                self.stuck.append(f"study {study.id} is {study.state} after {STUCK_S:g} s: {study.progress}")
                self._client.cancel_study(study.id)
                return
            time.sleep(_POLL_S)
            study = self._look(study)
        self.ended[study.state.value] += 1
        self._stop.wait(_POLL_S)

    def _look(self, study: Study) -> Study:
        try:
            return self._client.study(study.id)
        except (TailwrightError, httpx.HTTPError):
            return study

    def _wanted(self) -> StudyCreate:
        return StudyCreate(
            pool=self._pool,
            objective_q=0.5,
            space={"max_num_seqs": KnobRange(choices=[4, 8, 16])},
            workload_s=20,
            max_trials=3,
            max_duration_s=60,
            trial_requests=5,
            finalist_repeats=2,
            propose_rollout=False,
        )
