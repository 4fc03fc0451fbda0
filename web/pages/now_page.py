"""Now: what on-call sees first. Each pool's tail, open incidents with their next action, what is under way."""

from datetime import UTC, datetime, timedelta

from controlplane.client import Client
from controlplane.contract.bodies.alerts import Alert
from controlplane.contract.bodies.nodes import FleetColumns, NodeRole
from controlplane.contract.bodies.onboarding import StepName
from controlplane.contract.bodies.remedies import RemedyState, RemedyStep
from controlplane.contract.bodies.slo import Limit
from controlplane.contract.bodies.telemetry import QuantileSeries, ShareSeries
from controlplane.contract.metrics import E2E, FINISH_REASON, ITL, OUTPUT_TOKENS, REQUESTS, TTFT
from web.access.viewer import may_operate
from web.drawing.sparkline import sparkline
from web.drawing.stacks import stacked_bars
from web.drawing.waterfall import PARTS, Request
from web.frame.page import Context, Page, Part
from web.frame.selection import SERVING, Selection
from web.pages.pool_health import (
    TAIL,
    Health,
    Objective,
    fleet_sentence,
    health_of,
    limits_of,
    points_of,
    share_words,
    traffic_of,
    usual_of,
    worst_first,
)

LATELY = "5m"
"""What the figures of now are of."""
OTHERS = (ITL.short, E2E.short)
DAY = timedelta(days=1)
FEWEST_BEFORE = 200
"""Requests of the same span a day earlier that make it worth comparing with."""
RECENT = 8
STEP_WORDS = {
    StepName.ENGINE: "Start an engine (or take one that runs: vLLM or the embedded one)",
    StepName.AGENT: "Start an agent beside it: by it the service sees the engine",
    StepName.TRAFFIC: "Send it requests; its own traffic does as well",
}
PEOPLE = (
    "rollout",
    "alert",
    "incident",
    "revision",
    "study.started",
    "study.finished",
    "token",
    "person",
    "silence",
    "destination",
)
"""Kinds of the ledger's entries that people and rollouts make, or what they begin with; trials are not among them."""
LOOKED_AT = 100


def serving_pools(fleet: FleetColumns) -> list[str]:
    """Pools with serving nodes, by name."""
    return sorted({pool for pool, role in zip(fleet.pool, fleet.role, strict=True) if role is NodeRole.SERVING})


def pools(client: Client, selection: Selection) -> Context:
    """A card each, the worst first."""
    found = worst_first(healths(client, selection))
    start, end = selection.range.at(selection.now)
    sparks = {
        one.pool: sparkline("p99", one.points, start.timestamp(), end.timestamp(), selection.step_s, one.usual)
        for one in found
    }
    return {
        "pools": found,
        "sparks": sparks,
        "sentence": fleet_sentence(found),
        "share_words": share_words,
    }


def healths(client: Client, selection: Selection) -> list[Health]:
    """All pools with a few questions, each split by pool. One whose senders have no node is a pool like another."""
    only = selection.pool
    lately = {
        metric: _by_pool(client.quantiles(metric, window=LATELY, by=["pool"], pool=only, **SERVING).series)
        for metric in (TTFT.short, *OTHERS)
    }
    over = client.quantiles(
        TTFT.short, (0.99,), step=selection.step, by=["pool"], pool=only, **SERVING, **selection.span
    )
    spans = _by_pool(over.series)
    heard = {pool for found in (*lately.values(), spans) for pool in found if pool}
    names = [pool for pool in sorted({*serving_pools(client.fleet()), *heard}) if only in (None, pool)]
    before, when = reference(client, selection)
    rates = client.rates(REQUESTS.short, window=LATELY, by=["pool", FINISH_REASON.label], pool=only, **SERVING).series
    generated = client.rates(OUTPUT_TOKENS.short, window=LATELY, by=["pool"], pool=only, **SERVING).series
    tokens = {one.labels["pool"]: one for one in generated}
    rules = client.alert_rules()
    alerts = [alert for alert in client.alerts() if alert.state != "resolved"]
    found = []
    for pool in names:
        found.append(
            health_of(
                pool,
                now=lately[TTFT.short].get(pool),
                points=points_of(spans.get(pool)),
                usual=usual_of(points_of(before.get(pool))),
                usual_when=when,
                other={metric: _tail(lately[metric].get(pool)) for metric in OTHERS},
                traffic=traffic_of([one for one in rates if one.labels.get("pool") == pool], tokens.get(pool)),
                objectives=[
                    Objective(limit, _value(client, selection, pool, limit)) for limit in limits_of(pool, rules)
                ],
                alerts=[alert for alert in alerts if alert.labels.get("pool") == pool],
            )
        )
    return found


def reference(client: Client, selection: Selection) -> tuple[dict[str, QuantileSeries], str]:
    """What is usual: the same span a day earlier, or where that is too thin the span before; with its name."""
    found: dict[str, QuantileSeries] = {}
    when = ""
    for by, when in ((DAY, "a day earlier"), (selection.range.length(selection.now), "the span before")):  # noqa: B007
        start, end = (_step_of(moment, selection.step_s) for moment in selection.range.earlier(by, selection.now))
        answer = client.quantiles(
            TTFT.short,
            (0.99,),
            step=selection.step,
            by=["pool"],
            pool=selection.pool,
            start=start,
            end=end,
            **SERVING,
        )
        found = _by_pool(answer.series)
        if sum(series.count for series in found.values()) >= FEWEST_BEFORE:
            break
    return found, when


def first_steps(client: Client, selection: Selection) -> Context:
    """What a new service still lacks, with the command for it; nothing once a request was measured."""
    answer = client.onboarding()
    done = all(step.done for step in answer.steps)
    following = next((step for step in answer.steps if not step.done), None)
    return {"steps": [] if done else answer.steps, "following": following, "words": STEP_WORDS}


def open_incidents(client: Client, selection: Selection) -> Context:
    """Those that page before those that wait, each with what is to be done next; and how many alerts are none yet."""
    found = client.incidents(open=True)
    found.sort(key=lambda one: (one.severity != "page", one.state != "open", -one.onset_at.timestamp()))
    alerts = {one.id: [member.alert for member in client.incident(one.id).members] for one in found}
    return {
        "incidents": [(one, next_action(*alerts[one.id])) for one in found],
        "pending": len(client.alerts("pending")),
        "may_operate": may_operate(client),
    }


def next_action(*alerts: Alert) -> RemedyStep | None:
    """The newest remedy of these alerts that waits for somebody or is under way; None where none was chosen."""
    chosen = [step for alert in alerts for step in alert.remedies]
    open_ones = [step for step in chosen if step.state is not RemedyState.DECLINED]
    return max(open_ones or chosen, key=lambda step: step.time, default=None)


def decomposition(client: Client, selection: Selection) -> Context:
    """The worst pool's mean request, and that above its p95: where the tail's time goes."""
    found = worst_first(healths(client, selection))
    pool = found[0].pool if found else None
    if pool is None:
        return {"pool": None}
    tail = client.quantiles(E2E.short, (0.95,), pool=pool, **SERVING, **selection.span).series
    edge = tail[0].quantiles.get("0.95") if tail else None
    bars = [_mean("all requests", client.shares(pool=pool, **SERVING, **selection.span).series)]
    if edge is not None:
        slow = client.requests(
            pool=pool,
            metric=E2E.short,
            low=edge,
            timed_by="completion",
            order="slowest",
            limit=500,
            **SERVING,
            **selection.span,
        ).items
        if slow:
            mean = {part: sum(one.parts.get(part, 0.0) for one in slow) / len(slow) for part in PARTS}
            bars.append(Request(f"the {len(slow)} slowest, above p95", mean))
    known = [bar for bar in bars if bar is not None]
    return {"pool": pool, "chart": stacked_bars(known) if known else None, "edge": edge}


def activity(client: Client, selection: Selection) -> Context:
    """Studies and rollouts that have not ended."""
    return {
        "studies": [study for study in client.studies() if study.finished_at is None],
        "rollouts": [rollout for rollout in client.rollouts() if rollout.ended_at is None],
    }


def recent(client: Client, selection: Selection) -> Context:
    """What people and rollouts did last."""
    entries = [entry for entry in client.ledger(limit=LOOKED_AT) if entry.kind.startswith(PEOPLE)]
    return {"entries": entries[:RECENT]}


def _by_pool(series: list[QuantileSeries]) -> dict[str, QuantileSeries]:
    return {one.labels["pool"]: one for one in series}


def _tail(series: QuantileSeries | None) -> float | None:
    return None if series is None else series.quantiles.get(TAIL)


def _value(client: Client, selection: Selection, pool: str, limit: Limit) -> float | None:
    """What the limit is compared with. All pools are asked for at once: their answer is shared."""
    answer = client.quantiles(limit.metric, (limit.q,), window=LATELY, by=["pool"], pool=selection.pool, **SERVING)
    series = _by_pool(answer.series).get(pool)
    return None if series is None else next(iter(series.quantiles.values()), None)


def _mean(name: str, series: list[ShareSeries]) -> Request | None:
    """The mean request of all `series`: its parts in seconds."""
    requests = sum(one.requests for one in series)
    if not requests:
        return None
    parts = {part: sum(one.shares.get(part, 0.0) * one.e2e_s for one in series) / requests for part in PARTS}
    return Request(name, parts)


def _step_of(moment: datetime, step_s: int) -> datetime:
    """The start of its step: viewers of the same step ask the same."""
    return datetime.fromtimestamp(moment.timestamp() // step_s * step_s, UTC)


PAGE = Page(
    "now",
    "/",
    "Now",
    (
        Part("first_steps", first_steps),
        Part("pools", pools),
        Part("open_incidents", open_incidents),
        Part("decomposition", decomposition, 15),
        Part("activity", activity),
        Part("recent", recent),
    ),
    key="n",
)
