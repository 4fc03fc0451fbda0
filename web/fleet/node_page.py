"""One node: its knobs with their classes of change and limits; what changes have cost; its clock and host."""

from controlplane.client import Client
from controlplane.client.clocks import node_clocks
from controlplane.client.host import host_figures
from controlplane.contract.bodies.change import class_of
from controlplane.contract.bodies.nodes import EffectiveConfig
from controlplane.contract.knobs import KNOBS, difference
from web.frame.page import Context, Page, Part
from web.frame.selection import Selection


def node(client: Client, selection: Selection) -> Context:
    found = client.node(selection.own.get("node_name", ""))
    wanted = {} if found.desired_revision is None else client.config(found.desired_revision).knobs.knobs()
    runs = EffectiveConfig(revision=0, knobs={}) if found.effective is None else found.effective
    differing = difference(wanted, runs.knobs)
    rows = [
        {
            "name": name,
            "runs": runs.knobs.get(name),
            "wanted": wanted.get(name),
            "differs": name in differing,
            "change_class": class_of(name, found.backend, runs).value,
            "live_limit": runs.live_limits.get(name),
            "limit": runs.limits.get(name),
            "source": runs.sources.get(name, ""),
        }
        for name in KNOBS
    ]
    return {"node": found, "rows": rows, "clock": node_clocks(client, found.node).get(found.node)}


def host(client: Client, selection: Selection) -> Context:
    """What was measured of the machine under the node's engine."""
    return {"figures": host_figures(client, selection.own.get("node_name", ""))}


def whole(client: Client, selection: Selection) -> Context:
    """Raises `NotFound` for a node that there is not."""
    return {"name": client.node(selection.own.get("node_name", "")).node}


PAGE = Page(
    "node", "/nodes/{node_name}", "Node", (Part("node", node), Part("host", host)), section="fleet", whole=whole
)
