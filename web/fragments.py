"""What each live fragment shows: a function from the API client and the page's parameters to a template context.

Each fragment is rendered in its page first and refreshed alone afterwards, both from the same function.
"""

from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlencode

from controlplane.client import Client
from controlplane.client.clocks import node_clocks
from controlplane.client.host import host_figures
from controlplane.contract.bodies.change import class_of
from controlplane.contract.bodies.nodes import EffectiveConfig, NodeView
from controlplane.contract.bodies.rollouts import Rollout, RolloutPhase
from controlplane.contract.bodies.studies import FINALIST
from controlplane.contract.bodies.telemetry import Exemplar
from controlplane.contract.clock import utc_now
from controlplane.contract.errors import BadRequest, NotFound
from controlplane.contract.knobs import KNOBS, difference
from controlplane.contract.metrics import LIMIT, STEP_LIMIT
from controlplane.contract.step_limits import LIFTED_BY, MEANING
from web import behind
from web.remeasured import arms_of
from web.spans import STEP_OF, STEP_S, span_of

Params = Mapping[str, str]
Context = dict[str, Any]

HEADLINE = ("ttft", "itl", "e2e")

NODES_AT_END = "nodes_at_end"
"""The part of a rollout's evidence that says what each node ran when it ended."""


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


def host(client: Client, params: Params) -> Context:
    """What was measured of the machine under one node's engine."""
    return {"figures": host_figures(client, params.get("node", ""))}


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
    found = client.alert(number)
    named = {step.rollout_id for step in found.remedies if step.rollout_id is not None}
    return {
        "alert": found,
        "deliveries": client.deliveries(number),
        "proposed": {made for made in named if client.rollout(made).phase is RolloutPhase.PROPOSED},
        "may_operate": _may_operate(client),
    }


def activity(client: Client, params: Params) -> Context:
    """Studies and rollouts that have not ended."""
    return {
        "studies": [study for study in client.studies() if study.finished_at is None],
        "rollouts": [rollout for rollout in client.rollouts() if rollout.ended_at is None],
    }


def studies(client: Client, params: Params) -> Context:
    return {"studies": client.studies()}


def study(client: Client, params: Params) -> Context:
    """One study: its search, and apart from it what was measured again, which alone says who has won."""
    number = _number(params, "id")
    found = client.study(number)
    trials = sorted(client.trials(number), key=lambda trial: trial.number)
    search = [trial for trial in trials if trial.kind != FINALIST]
    return {
        "study": found,
        "search": search,
        "arms": arms_of(found.result, trials),
        "winner": found.result.winner if found.result and found.result.repeats else None,
        "knobs": [name for name in KNOBS if any(name in trial.knobs for trial in trials)],
    }


def rollouts(client: Client, params: Params) -> Context:
    return {"rollouts": client.rollouts()}


def rollout(client: Client, params: Params) -> Context:
    """One rollout. What its nodes run today is its own only while it is under way; afterwards it stands apart."""
    found = client.rollout(_number(params, "id"))
    previous = client.config(found.previous_revision) if found.previous_revision else None
    nodes = {node.node: node for node in client.nodes() if node.pool == found.spec.pool}
    at_end = _ran_at_end(found)
    names = list(dict.fromkeys([*found.canary_nodes, *found.control_nodes, *at_end]))
    return {
        "rollout": found,
        "wanted": client.config(found.spec.revision),
        "previous": previous,
        "node_names": names,
        "runs_now": {name: _runs(nodes[name]) if name in nodes else {} for name in names},
        "ran_at_end": at_end,
        "knobs": list(KNOBS),
        "may_operate": _may_operate(client),
        "waits": _waits_for_approval(found),
        "may_approve": _waits_for_approval(found) and client.own_session().scope == "admin",
    }


def _runs(node: NodeView) -> dict[str, Any]:
    return {} if node.effective is None else node.effective.knobs


def _ran_at_end(found: Rollout) -> dict[str, dict[str, Any]]:
    """Knobs by node as the rollout itself wrote them down when it ended; empty where it did not, or a node was away."""
    kept = found.evidence.get(NODES_AT_END)
    if not isinstance(kept, dict):
        return {}
    return {name: {} if node is None else node["knobs"] for name, node in kept.items()}


def ledger(client: Client, params: Params) -> Context:
    return {"entries": client.ledger(limit=200, kind=params.get("kind") or None)}


def recent(client: Client, params: Params) -> Context:
    return {"entries": client.ledger(limit=8)}


def binds(client: Client, params: Params) -> Context:
    """What bound the steps of a pool's engines over the span, the largest share first; none where none told."""
    pool = params.get("pool") or next(iter(pools(client.nodes())), None)  # As the page chooses.
    answer = client.rates(STEP_LIMIT.short, window=span_of(params), by=[LIMIT.label], pool=pool)
    steps = {one.labels.get(LIMIT.label, ""): one.total for one in answer.series}
    every = sum(steps.values())
    rows: list[dict[str, Any]] = [
        {"limit": limit.value, "share": steps[limit] / every, "lifted_by": LIFTED_BY.get(limit), "meaning": words}
        for limit, words in MEANING.items()
        if steps.get(limit)
    ]
    return {"limits": sorted(rows, key=lambda row: -row["share"]), "limited_steps": every}


def slowest(client: Client, params: Params) -> Context:
    """The slowest requests of the last minutes with their waterfalls."""
    wanted = {"order": "slowest", "limit": 10, "window": "5m"}
    if params.get("pool"):
        wanted["pool"] = params["pool"]
    return {"requests": client.requests(**wanted).items}


def exemplars(client: Client, params: Params) -> Context:
    """The requests behind a quantile: of the chart's step at `at`, where one was chosen, else of the whole span.

    A step of whose requests none was kept as an exemplar is looked up in the request log.
    """
    metric, at, span = params.get("metric") or "ttft", params.get("at", ""), span_of(params)
    pool, above = params.get("pool") or None, _seconds(params, "above")
    wanted: dict[str, Any] = {"pool": pool, "above": params.get("above") or None, "limit": 20}
    wanted |= {"start": at, "window": STEP_OF[span]} if at else {"window": span}
    found = client.exemplars(metric, **wanted).items
    logged: list[Exemplar] = []
    all_seen = True
    if at and not found:
        logged, all_seen = behind.from_the_log(client, metric, pool, at, STEP_S[span], above)
    return {
        "exemplars": found or logged,
        "from_the_log": bool(logged),
        "all_seen": all_seen,
        "looked_at": behind.LOOKED_AT,
        "exemplar_metric": metric,
        "at": at,
        "above": above,
        "whole_span": "/latency?" + urlencode({"pool": pool or "", "span": span, "metric": metric}),
    }


def people(client: Client, params: Params) -> Context:
    """Open sessions; for an admin also who was seen, and tokens that are no node's and have not ended."""
    mine, now = client.own_session(), utc_now()
    is_admin = mine.scope == "admin"
    tokens = [token for token in client.tokens() if token.node is None and not token.revoked_at] if is_admin else []
    return {
        "mine": mine,
        "sessions": client.sessions(),
        "people": client.people() if is_admin else None,
        "tokens": [token for token in tokens if token.expires_at is None or token.expires_at > now],
    }


def _may_operate(client: Client) -> bool:
    return client.own_session().scope in {"operate", "admin"}


def _waits_for_approval(found: Rollout) -> bool:
    return found.phase is RolloutPhase.PROPOSED and found.needs_approval


FRAGMENTS: dict[str, Callable[[Client, Params], Context]] = {
    fragment.__name__: fragment
    for fragment in (
        *(fleet, node, host, headline, recent, binds, slowest, exemplars),
        *(open_alerts, alerts, alert),
        *(activity, studies, study),
        *(rollouts, rollout, ledger, people),
    )
}
"""By the name that pages, templates and addresses say."""


def context_of(name: str, client: Client, params: Params) -> Context:
    """The context of one fragment. Raises `NotFound` for a name that is none."""
    if name not in FRAGMENTS:
        raise NotFound(f"no fragment {name!r}", field="name")
    return FRAGMENTS[name](client, params)
