"""How long a wave of nodes may take to confirm a revision, where the rollout does not say (pure)."""

from collections.abc import Sequence

from controlplane.contract.bodies.change import needed_class, patience_s
from controlplane.contract.bodies.configs import Revision
from controlplane.contract.bodies.nodes import NodeView
from controlplane.contract.knobs import ChangeClass

LIVE_TIMEOUT_S = 120.0
"""For live changes: an agent may be reconnecting, or the wave be large."""


def apply_timeout_s(nodes: Sequence[NodeView], revision: Revision) -> float:
    """By the hardest change that `revision` needs on one of these nodes, as they report themselves."""
    longest_s, knobs = LIVE_TIMEOUT_S, revision.knobs.knobs()
    # What nodes report alike is one object, and needs one look.
    told = {(node.backend, id(node.effective)): node.effective for node in nodes}
    for (backend, _), effective in told.items():
        if effective is None:
            continue
        needed = needed_class(backend, effective, knobs)
        if needed not in (None, ChangeClass.LIVE):
            longest_s = max(longest_s, patience_s(effective, needed))
    return longest_s
