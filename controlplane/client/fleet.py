"""The fleet's nodes and the configurations that they may run."""

from controlplane.client.connection import Connection, segment
from controlplane.contract.bodies.configs import Revision, RevisionCreate
from controlplane.contract.bodies.nodes import NodeView, TrialConfig


class FleetCalls(Connection):
    """Nodes and revisions."""

    def nodes(self) -> list[NodeView]:
        return list(self.every(NodeView, "/api/v1/nodes"))

    def node(self, node: str) -> NodeView:
        return self._one(NodeView, "GET", f"/api/v1/nodes/{segment(node)}")

    def reset_cache(self, node: str) -> NodeView:
        """Have a trial node empty its prefix cache: see `NodeView.desired_cache_reset`."""
        return self._one(NodeView, "POST", f"/api/v1/nodes/{segment(node)}/cache-reset")

    def set_trial_config(self, node: str, wanted: TrialConfig) -> NodeView:
        return self._one(NodeView, "PUT", f"/api/v1/nodes/{segment(node)}/trial-config", body=wanted)

    def configs(self) -> list[Revision]:
        return list(self.every(Revision, "/api/v1/configs"))

    def config(self, number: int) -> Revision:
        return self._one(Revision, "GET", f"/api/v1/configs/{number}")

    def create_config(self, wanted: RevisionCreate) -> Revision:
        return self._one(Revision, "POST", "/api/v1/configs", body=wanted)
