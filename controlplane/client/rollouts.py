"""Rollouts: created, started, cancelled, looked at."""

from controlplane.client.connection import Connection
from controlplane.contract.bodies.rollouts import Rollout, RolloutCreate


class RolloutCalls(Connection):
    """Rollouts of a revision to a pool."""

    def rollouts(self) -> list[Rollout]:
        """Newest first."""
        return list(self.every(Rollout, "/api/v1/rollouts"))

    def rollout(self, rollout_id: int) -> Rollout:
        return self._one(Rollout, "GET", f"/api/v1/rollouts/{rollout_id}")

    def create_rollout(self, wanted: RolloutCreate) -> Rollout:
        return self._one(Rollout, "POST", "/api/v1/rollouts", body=wanted)

    def start_rollout(self, rollout_id: int) -> Rollout:
        return self._one(Rollout, "POST", f"/api/v1/rollouts/{rollout_id}/start")

    def cancel_rollout(self, rollout_id: int) -> Rollout:
        """Before it began: cancelled. While it runs: rolled back."""
        return self._one(Rollout, "POST", f"/api/v1/rollouts/{rollout_id}/cancel")
