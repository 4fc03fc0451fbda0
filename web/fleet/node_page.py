"""One node: against its pool, its knobs with classes, limits and costs, its host, its alerts, and what became of it."""

from controlplane.client import Client
from controlplane.client.clocks import node_clocks
from controlplane.client.host import host_figures
from controlplane.contract.bodies.alerts import AlertState
from controlplane.contract.bodies.change import class_of
from controlplane.contract.bodies.nodes import EffectiveConfig
from controlplane.contract.knobs import KNOBS, difference
from web.fleet.node_charts import AGAINST_POOL, CHARTS, name_of
from web.frame.page import Context, Page, Part
from web.frame.selection import Selection

MOST_TOLD = 10


def node(client: Client, selection: Selection) -> Context:
    found = client.node(name_of(selection))
    wanted = {} if found.desired_revision is None else client.config(found.desired_revision).knobs.knobs()
    runs = EffectiveConfig(revision=0, knobs={}) if found.effective is None else found.effective
    differing = difference(wanted, runs.knobs)
    numbers = {"a": str(runs.revision), "b": str(found.desired_revision)}
    told_both = runs.revision and found.desired_revision and runs.revision != found.desired_revision
    rows = [
        {
            "name": name,
            "knob": knob,
            "runs": runs.knobs.get(name),
            "wanted": wanted.get(name),
            "differs": name in differing,
            "change_class": class_of(name, found.backend, runs).value,
            "live_limit": runs.live_limits.get(name),
            "limit": runs.limits.get(name),
            "source": runs.sources.get(name, ""),
        }
        for name, knob in KNOBS.items()
    ]
    comparison = selection.frame_query(pool=found.pool, **numbers) if told_both else ""
    return {
        "node": found,
        "rows": rows,
        "differing": differing,
        "comparison": comparison,
        "clock": node_clocks(client, found.node).get(found.node),
    }


def host(client: Client, selection: Selection) -> Context:
    """What was measured of the machine under the node's engine."""
    return {"figures": host_figures(client, name_of(selection))}


def story(client: Client, selection: Selection) -> Context:
    """Alerts about it, and what the ledger has of it: revisions it was given, and that it came and went."""
    name = name_of(selection)
    alerts = [alert for alert in client.alerts() if alert.labels.get("node") == name]
    return {
        "alerts": sorted(alerts, key=lambda alert: alert.state == AlertState.RESOLVED)[:MOST_TOLD],
        "entries": client.ledger(limit=MOST_TOLD, subject=f"node/{name}"),
        "slow": selection.frame_query(node=name, order="slowest"),
        "all_entries": selection.frame_query(subject=f"node/{name}", **{"from": None, "to": None}),
    }


def whole(client: Client, selection: Selection) -> Context:
    """Raises `NotFound` for a node that there is not."""
    return {"name": client.node(name_of(selection)).node, "against_pool": AGAINST_POOL, "charts": CHARTS}


PAGE = Page(
    "node",
    "/nodes/{node_name}",
    "Node",
    (Part("node", node), AGAINST_POOL, Part("node_story", story, 15), *CHARTS, Part("host", host, 15)),
    section="fleet",
    whole=whole,
    scripts=("charts.js",),
)
