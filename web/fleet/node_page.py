"""One node: against its pool, its knobs with classes, limits and costs, its memory, its host and GPU, what it served,
its incidents and alerts, and what became of it."""

from controlplane.client import Client
from controlplane.client.clocks import node_clocks
from controlplane.client.host import host_figures
from controlplane.contract.bodies.alerts import AlertState
from controlplane.contract.bodies.change import class_of
from controlplane.contract.bodies.nodes import EffectiveConfig
from controlplane.contract.knobs import KNOBS, difference
from controlplane.contract.on_call.incidents import IncidentDetail
from controlplane.contract.reports.declared_knobs import by_some, knob_of, names_in_order, started_as
from web.fleet import node_gpu
from web.fleet.memory_rows import memory_rows
from web.fleet.node_charts import AGAINST_POOL, CHARTS, name_of
from web.fleet.node_served import revisions, slow_requests
from web.frame.page import Context, Page, Part
from web.frame.selection import Selection

MOST_TOLD = 10
MOST_INCIDENTS = 5


def node(client: Client, selection: Selection) -> Context:
    found = client.node(name_of(selection))
    wanted = {} if found.desired_revision is None else client.config(found.desired_revision).knobs.knobs()
    runs = EffectiveConfig(revision=0, knobs={}) if found.effective is None else found.effective
    wanted = started_as(runs.declared, wanted) if wanted else wanted
    most = {name: own.maximum for name, own in runs.declared.items()} | runs.limits
    declared = by_some([runs.declared])
    differing = difference(wanted, runs.knobs)
    numbers = {"a": str(runs.revision), "b": str(found.desired_revision)}
    told_both = runs.revision and found.desired_revision and runs.revision != found.desired_revision
    rows = [
        {
            "name": name,
            "knob": knob_of(name, declared),
            "runs": runs.knobs.get(name),
            "wanted": wanted.get(name),
            "differs": name in differing,
            "change_class": class_of(name, found.backend, runs).value,
            "live_limit": runs.live_limits.get(name),
            "limit": most.get(name),
            "source": runs.sources.get(name, ""),
        }
        for name in names_in_order([*KNOBS, *declared])
    ]
    comparison = selection.frame_query(pool=found.pool, **numbers) if told_both else ""
    return {
        "node": found,
        "rows": rows,
        "memory": memory_rows(runs),
        "differing": differing,
        "comparison": comparison,
        "clock": node_clocks(client, found.node).get(found.node),
    }


def host(client: Client, selection: Selection) -> Context:
    """What was measured of the machine under the node's engine."""
    return {"figures": host_figures(client, name_of(selection))}


def story(client: Client, selection: Selection) -> Context:
    """Incidents and alerts about it, and what the ledger has of it: what it was given, and that it came and went."""
    name = name_of(selection)
    alerts = [alert for alert in client.alerts() if alert.labels.get("node") == name]
    return {
        "incidents": incidents(client, name),
        "alerts": sorted(alerts, key=lambda alert: alert.state == AlertState.RESOLVED)[:MOST_TOLD],
        "entries": client.ledger(limit=MOST_TOLD, subject=f"node/{name}"),
        "all_entries": selection.frame_query(subject=f"node/{name}", **{"from": None, "to": None}),
    }


def incidents(client: Client, name: str) -> list[IncidentDetail]:
    """Those of its pool that are open and have an alert about it, among the newest."""
    found = client.incidents(pool=client.node(name).pool, open=True)[:MOST_INCIDENTS]
    details = [client.incident(one.id) for one in found]
    return [one for one in details if any(member.alert.labels.get("node") == name for member in one.members)]


def whole(client: Client, selection: Selection) -> Context:
    """Raises `NotFound` for a node that there is not."""
    return {"name": client.node(name_of(selection)).node, "against_pool": AGAINST_POOL} | {
        "charts": CHARTS,
        "gpu_charts": node_gpu.CHARTS,
    }


PAGE = Page(
    "node",
    "/nodes/{node_name}",
    "Node",
    (
        Part("node", node),
        AGAINST_POOL,
        Part("node_story", story, 15),
        Part("node_requests", slow_requests, 15),
        Part("node_revisions", revisions, 15),
        *CHARTS,
        Part("host", host, 15),
        Part("gpu", node_gpu.gpu, 15),
        *node_gpu.CHARTS,
    ),
    section="fleet",
    whole=whole,
    scripts=("charts.js",),
)
