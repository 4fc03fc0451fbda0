"""What each live fragment shows: a function from the API client and the page's parameters to a template context.

Each fragment is rendered in its page first and refreshed alone afterwards, both from the same function.
"""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any
from urllib.parse import urlencode

from controlplane.client import Client
from controlplane.client.clocks import node_clocks
from controlplane.contract.change import class_of
from controlplane.contract.clock import utc_now
from controlplane.contract.errors import BadRequest, NotFound
from controlplane.contract.knobs import KNOBS
from controlplane.contract.nodes import EffectiveConfig, NodeView

Params = Mapping[str, str]
Context = dict[str, Any]

HEADLINE = ("ttft", "itl", "e2e")
STEP_OF = {"5m": "5s", "15m": "10s", "1h": "30s", "6h": "3m", "24h": "10m"}
"""Spans the pages offer, each with the step that gives about a hundred points."""


def _number(params: Params, name: str) -> int:
    try:
        return int(params[name])
    except (KeyError, ValueError):
        raise BadRequest(f"{name}: wants a number", field=name) from None


def _seconds(params: Params, name: str) -> float | None:
    try:
        return float(params[name]) if params.get(name) else None
    except ValueError:
        raise BadRequest(f"{name}: wants a number of seconds", field=name) from None


def pools(nodes: list[NodeView]) -> list[str]:
    """Pools with serving nodes, by name."""
    return sorted({node.pool for node in nodes if node.role == "serving"})


def fleet(client: Client, params: Params) -> Context:
    return {"nodes": client.nodes(), "knobs": list(KNOBS)}


def node(client: Client, params: Params) -> Context:
    """One node: each knob with its value, source, class of change and limits; what changes have cost; its clock."""
    found = client.node(params.get("node", ""))
    wanted = {} if found.desired_revision is None else client.config(found.desired_revision).knobs.knobs()
    runs = EffectiveConfig(revision=0, knobs={}) if found.effective is None else found.effective
    rows = [
        {
            "name": name,
            "runs": runs.knobs.get(name),
            "wanted": wanted.get(name),
            "differs": name in wanted and name in runs.knobs and wanted[name] != runs.knobs[name],
            "change_class": class_of(name, found.backend, runs).value,
            "live_limit": runs.live_limits.get(name),
            "limit": runs.limits.get(name),
            "source": runs.sources.get(name, ""),
        }
        for name in KNOBS
    ]
    return {"node": found, "rows": rows, "clock": node_clocks(client, found.node).get(found.node)}


def headline(client: Client, params: Params) -> Context:
    """p50, p95 and p99 of the three headline metrics over the last minute, by pool."""
    serving = pools(client.nodes())
    rows = []
    for pool in serving:
        for metric in HEADLINE:
            answer = client.quantiles(metric, window="1m", pool=pool)
            series = answer.series[0] if answer.series else None
            rows.append({"pool": pool, "metric": metric, "series": series})
    return {"rows": rows, "serving": serving}


def open_alerts(client: Client, params: Params) -> Context:
    return {"alerts": [alert for alert in client.alerts() if alert.state != "resolved"]}


def alerts(client: Client, params: Params) -> Context:
    return {"alerts": client.alerts(), "rules": client.alert_rules()}


def alert(client: Client, params: Params) -> Context:
    number = _number(params, "id")
    return {"alert": client.alert(number), "deliveries": client.deliveries(number)}


def activity(client: Client, params: Params) -> Context:
    """Studies and rollouts that have not ended."""
    return {
        "studies": [study for study in client.studies() if study.finished_at is None],
        "rollouts": [rollout for rollout in client.rollouts() if rollout.ended_at is None],
    }


def studies(client: Client, params: Params) -> Context:
    return {"studies": client.studies()}


def study(client: Client, params: Params) -> Context:
    number = _number(params, "id")
    trials = client.trials(number)
    best = min(
        (trial for trial in trials if trial.feasible and trial.objective_s is not None),
        key=lambda trial: trial.objective_s or 0.0,
        default=None,
    )
    return {
        "study": client.study(number),
        "trials": sorted(trials, key=lambda trial: trial.number),
        "best": best,
        "knobs": [name for name in KNOBS if any(name in trial.knobs for trial in trials)],
    }


def rollouts(client: Client, params: Params) -> Context:
    return {"rollouts": client.rollouts()}


def rollout(client: Client, params: Params) -> Context:
    found = client.rollout(_number(params, "id"))
    previous = client.config(found.previous_revision) if found.previous_revision else None
    nodes = {node.node: node for node in client.nodes() if node.pool == found.spec.pool}
    return {
        "rollout": found,
        "wanted": client.config(found.spec.revision),
        "previous": previous,
        "nodes": nodes,
        "knobs": list(KNOBS),
        "may_operate": client.whoami().scope in {"operate", "admin"},
    }


def ledger(client: Client, params: Params) -> Context:
    return {"entries": client.ledger(limit=200, kind=params.get("kind") or None)}


def recent(client: Client, params: Params) -> Context:
    return {"entries": client.ledger(limit=8)}


def slowest(client: Client, params: Params) -> Context:
    """The slowest requests of the last minutes with their waterfalls."""
    now: datetime = utc_now()
    wanted = {"order": "slowest", "limit": 10, "window": "5m"}
    if params.get("pool"):
        wanted["pool"] = params["pool"]
    return {"requests": client.requests(**wanted).items, "now": now}


def exemplars(client: Client, params: Params) -> Context:
    """The requests behind a quantile: of the chart's step at `at`, where one was chosen, else of the whole span."""
    metric, at, span = params.get("metric") or "ttft", params.get("at", ""), params.get("span") or "15m"
    pool = params.get("pool") or None
    wanted = {"pool": pool, "above": params.get("above") or None, "limit": 20}
    if at:
        wanted |= {"start": at, "window": STEP_OF.get(span, STEP_OF["15m"])}
    else:
        wanted["window"] = span
    return {
        "exemplars": client.exemplars(metric, **wanted).items,
        "exemplar_metric": metric,
        "at": at,
        "above": _seconds(params, "above"),
        "whole_span": "/latency?" + urlencode({"pool": pool or "", "span": span, "metric": metric}),
    }


_ALL = (
    *(fleet, node, headline, recent, slowest, exemplars),
    *(open_alerts, alerts, alert),
    *(activity, studies, study),
    *(rollouts, rollout, ledger),
)
VIEWS: dict[str, Callable[[Client, Params], Context]] = {view.__name__: view for view in _ALL}


def context_of(name: str, client: Client, params: Params) -> Context:
    """The context of one fragment. Raises `NotFound` for a name that is none."""
    view = VIEWS.get(name)
    if view is None:
        raise NotFound(f"no fragment {name!r}", field="name")
    return view(client, params)
