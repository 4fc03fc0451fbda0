"""Tuning studies, for those who ask for them and for the worker that runs them."""

from controlplane.client.connection import Connection
from controlplane.contract.bodies.studies import (
    Study,
    StudyClaim,
    StudyCreate,
    StudyFinish,
    StudyHeartbeat,
    Trial,
    TrialReport,
)


class StudyCalls(Connection):
    """Studies and their trials."""

    def studies(self) -> list[Study]:
        """Newest first."""
        return list(self.every(Study, "/api/v1/studies"))

    def study(self, study_id: int) -> Study:
        return self._one(Study, "GET", f"/api/v1/studies/{study_id}")

    def create_study(self, wanted: StudyCreate) -> Study:
        return self._one(Study, "POST", "/api/v1/studies", body=wanted)

    def cancel_study(self, study_id: int) -> Study:
        return self._one(Study, "POST", f"/api/v1/studies/{study_id}/cancel")

    def trials(self, study_id: int) -> list[Trial]:
        return list(self.every(Trial, f"/api/v1/studies/{study_id}/trials"))

    def claim_study(self, worker: str) -> Study | None:
        answer = self._request("POST", "/api/v1/studies/claim", body=StudyClaim(worker=worker))
        return None if answer.status_code == 204 else Study.model_validate_json(answer.content)

    def heartbeat_study(self, study_id: int, beat: StudyHeartbeat) -> Study:
        """Extends the lease; raises Conflict when the study is no longer this worker's (cancelled, reclaimed)."""
        return self._one(Study, "POST", f"/api/v1/studies/{study_id}/heartbeat", body=beat)

    def report_trial(self, study_id: int, worker: str, trial: TrialReport) -> Trial:
        return self._one(Trial, "POST", f"/api/v1/studies/{study_id}/trials", body=trial, params={"worker": worker})

    def finish_study(self, study_id: int, outcome: StudyFinish) -> Study:
        """Ends the study with its result or its error."""
        return self._one(Study, "POST", f"/api/v1/studies/{study_id}/finish", body=outcome)
