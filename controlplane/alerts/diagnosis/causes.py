"""Likely causes of a slowdown, each with its evidence, from what else changed with it.

Each cause carries a `score` in 0..1 by which they are ordered, see `ranking`. A change of configuration that reached
the pool at the onset comes first, unless the data contradict it; with nothing found the cause is "unknown".
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from controlplane.alerts.diagnosis.change_event import behind_measured, change_events
from controlplane.alerts.diagnosis.config_change import RevisionSeen, config_changes
from controlplane.alerts.diagnosis.counted_ratio import NOT_MEASURED, Level
from controlplane.alerts.diagnosis.draft_causes import NO_DRAFTS, Drafts, draft_causes
from controlplane.alerts.diagnosis.host_cause import Readings, host_causes
from controlplane.alerts.diagnosis.place_causes import place_causes, tenant_mix, unknown
from controlplane.alerts.diagnosis.plausibility import PRIOR
from controlplane.alerts.diagnosis.ranking import MORE_WORK, MOST_OF_LOAD, Meanwhile, ranked
from controlplane.alerts.diagnosis.rollout_record import RolloutRecord
from controlplane.contract.bodies.cause_kinds import CauseKind
from controlplane.contract.metrics import PROMPT_BUCKET_EDGES, PROMPT_BUCKETS, CacheClass
from controlplane.contract.on_call.attribution import Attribution
from controlplane.contract.share_text import share_text

LOAD_GROWTH = 1.25
CHANCE_SIGMAS = 3.0
"""Requests come by chance: over a short time a few more, or a few more of a kind, are no change of the traffic."""
MIX_CHANGE = 0.15
HIT_DROP = 0.15
KV_FULL = 0.9
NODE_SHARE = 0.7
LEAST_EXPLAINED = 0.2
"""Of the shift: what explains less is no cause of it."""

Cause = dict[str, Any]


@dataclass(frozen=True)
class Context:
    """What surrounds a slowdown. Mixes map a label to its share of requests; rates are per second."""

    pool: str = ""
    during_s: float = 0.0  # How long the slowdown has been looked at; 0: not known.
    revisions: Sequence[RevisionSeen] = ()
    rollouts: Sequence[RolloutRecord] = ()  # Of the pool, the oldest first.
    knobs: Mapping[int, Mapping[str, Any]] = field(default_factory=dict)  # By revision, where they are known.
    rate: Level = NOT_MEASURED  # Requests served.
    backlog: Level = NOT_MEASURED  # Requests running or waiting on all nodes, at the end of each span.
    prompt_before: Mapping[str, float] = field(default_factory=dict)
    prompt_during: Mapping[str, float] = field(default_factory=dict)
    cache_before: Mapping[str, float] = field(default_factory=dict)
    cache_during: Mapping[str, float] = field(default_factory=dict)
    answer_tokens: Level = NOT_MEASURED  # Of a finished request in the mean.
    preemptions: Level = NOT_MEASURED
    kv_usage: Level = NOT_MEASURED
    tenant_before: Mapping[str, float] = field(default_factory=dict)
    tenant_during: Mapping[str, float] = field(default_factory=dict)
    drafts: Drafts = NO_DRAFTS
    running: Level = NOT_MEASURED
    waiting: Level = NOT_MEASURED
    node_growth_s: Mapping[str, float] = field(default_factory=dict)  # Growth of the metric's mean by node.
    hosts: Mapping[str, Readings] = field(default_factory=dict)  # What was measured of each node's host.
    ledger: Sequence[Mapping[str, Any]] = ()  # {"time", "kind", "subject", "message"} of changes around the onset.
    marks: Sequence[Mapping[str, Any]] = ()  # As `change_events` wants them.


def causes(
    context: Context,
    onset: datetime,
    attribution: Attribution | None = None,
    plausibility: Mapping[str, float] = PRIOR,
) -> list[Cause]:
    """The causes found, the likeliest first. plausibility: by kind, as `learned` makes it."""
    config, load = _config_change(context, onset), _load(context)
    prompts, misses = _prompt_mix(context), _cache_miss(context)
    drafts = draft_causes(context.drafts, has_room=not (config or load or prompts or misses))
    found = [
        *config,
        *load,
        *_who_loads(context, load),
        *prompts,
        *_answer_mix(context),
        *misses,
        *_kv_pressure(context),
        *drafts,
        *_one_node(context),
        *_host(context, onset, config, load),
    ]
    found += [cause for cause in place_causes(attribution) if not _is_told(cause, found)]
    steps = max((float(cause["steps_growth"]) for cause in drafts), default=1.0)
    meanwhile = Meanwhile(running_growth(context), answer_growth(context), steps)
    found += change_events(context.marks, None if attribution is None else attribution.since)
    told = [one for one in ranked(found, attribution, plausibility, meanwhile) if _explains(one)]
    return behind_measured(told) or [unknown(attribution)]


def _explains(cause: Cause) -> bool:
    """What changed by chance meanwhile explains nothing. What people or hosts did is told all the same."""
    if cause["cause"] in (CauseKind.CONFIG_CHANGE, CauseKind.HOST):
        return True
    return float(cause.get("share_explained", 1.0)) >= LEAST_EXPLAINED


def running_growth(context: Context) -> float:
    """By what factor more requests ran at once; 1 where it is not known."""
    before, during = context.running.before, context.running.during
    return during / before if before and during else 1.0


def answer_growth(context: Context) -> float:
    """By what factor answers got longer; 1 where that may be chance or is not known."""
    before, during = context.answer_tokens.before, context.answer_tokens.during
    if not before or not during or during - before < CHANCE_SIGMAS * context.answer_tokens.error:
        return 1.0
    return during / before if during >= MORE_WORK * before else 1.0


def _is_told(cause: Cause, found: Sequence[Cause]) -> bool:
    return any(one["cause"] == cause["cause"] and one.get("node") == cause.get("node") for one in found)


def _config_change(context: Context, onset: datetime) -> list[Cause]:
    found = config_changes(context.revisions, context.rollouts, onset, context.knobs)
    return [{**cause, "ledger": list(context.ledger)} for cause in found]


def _load(context: Context) -> list[Cause]:
    """More requests arrive than before: those served, and those by which the backlog grew meanwhile."""
    before, served = context.rate.before, context.rate.during
    if not before or served is None:
        return []
    arrived = served + _backlog_growth(context)
    excess, chance = (arrived - before) * context.during_s, CHANCE_SIGMAS * math.sqrt(arrived * context.during_s)
    if arrived < LOAD_GROWTH * before or excess < chance:
        return []
    waiting = f"; {context.waiting.during:.0f} requests wait on a node" if context.waiting.during else ""
    return [
        {
            "cause": CauseKind.LOAD.value,
            "score": min(0.9, 0.4 + 0.25 * (arrived / before - 1.0)),
            "message": (
                f"load rose from {before:.3g} to {arrived:.3g} requests a second, of which {served:.3g} were served"
                + waiting
            ),
            "rate_before": before,
            "rate_during": arrived,
            "served_during": served,
            "waiting_before": context.waiting.before,
            "waiting_during": context.waiting.during,
        }
    ]


def _who_loads(context: Context, load: Sequence[Cause]) -> list[Cause]:
    """Who sends most of what comes more than before, or all of it but for chance, is why more comes, whatever his own
    requests take."""
    before, during = context.tenant_before, context.tenant_during
    if not load or not during:
        return []
    then, now = float(load[0]["rate_before"]), float(load[0]["rate_during"])
    more = {name: share * now - before.get(name, 0.0) * then for name, share in during.items()}
    top = max(more, key=lambda name: more[name])
    shares = before.get(top, 0.0), during[top]
    others = (1.0 - shares[0]) * then, (1.0 - shares[1]) * now
    brings = more[top] >= MOST_OF_LOAD * (now - then) or _are_chance(context, *others)
    if not brings or shares[1] <= shares[0] or _is_chance(context, *shares):
        return []
    return [{**tenant_mix(top, *shares), "brings_load": True}]


def _backlog_growth(context: Context) -> float:
    """Requests a second that came and were not served yet; 0 where nobody counts what runs and waits."""
    before, during = context.backlog.before, context.backlog.during
    if before is None or during is None or not context.during_s:
        return 0.0
    return max(0.0, during - before) / context.during_s


def _is_chance(context: Context, before: float, during: float) -> bool:
    """Whether a share of the requests may have changed by chance; what comes before is supposed to be well known."""
    requests = (context.rate.during or 0.0) * context.during_s
    middle = (before + during) / 2.0
    return requests > 0.0 and abs(during - before) < CHANCE_SIGMAS * math.sqrt(middle * (1.0 - middle) / requests)


def _are_chance(context: Context, before: float, during: float) -> bool:
    """Whether so many events a second may have come by chance (Poisson); what came before is well known."""
    expected, seen = before * context.during_s, during * context.during_s
    return context.during_s > 0.0 and seen - expected < CHANCE_SIGMAS * math.sqrt(max(expected, 1.0))


def _prompt_mix(context: Context) -> list[Cause]:
    before, during = context.prompt_before, context.prompt_during
    if not before or not during:
        return []
    distance = sum(abs(during.get(name, 0.0) - before.get(name, 0.0)) for name in {*before, *during}) / 2.0
    place = {name: number for number, name in enumerate(PROMPT_BUCKETS)}
    longer = sum(place.get(name, 0) * share for name, share in during.items()) - sum(
        place.get(name, 0) * share for name, share in before.items()
    )
    top = max(during, key=lambda name: during[name] - before.get(name, 0.0))
    if distance < MIX_CHANGE or longer <= 0.0 or _is_chance(context, before.get(top, 0.0), during[top]):
        return []
    return [
        {
            "cause": CauseKind.PROMPT_MIX.value,
            "score": min(0.8, 0.3 + distance),
            "message": (
                f"prompts got longer: {top} tokens were {share_text(before.get(top, 0.0))} of requests, "
                f"now {share_text(during[top])}"
            ),
            "before": dict(before),
            "during": dict(during),
            "tokens_growth": round(_tokens(during) / _tokens(before), 3),
        }
    ]


def _answer_mix(context: Context) -> list[Cause]:
    growth, tokens = answer_growth(context), context.answer_tokens
    if growth == 1.0:
        return []
    return [
        {
            "cause": CauseKind.ANSWER_MIX.value,
            "score": min(0.8, 0.4 + 0.25 * (growth - 1.0)),
            "message": f"answers got longer: {tokens.before:.3g} tokens in the mean, now {tokens.during:.3g}",
            "answer_tokens": [tokens.before, tokens.during],
        }
    ]


def _tokens(mix: Mapping[str, float]) -> float:
    """Of a prompt in the mean, about: by the buckets' upper edges."""
    edges = [edge for edge, _ in PROMPT_BUCKET_EDGES]
    upto = dict(zip(PROMPT_BUCKETS, [*edges, 2 * edges[-1]], strict=True))
    return sum(upto.get(name, 0) * share for name, share in mix.items())


def _cache_miss(context: Context) -> list[Cause]:
    hit = CacheClass.HIT.value
    before, during = context.cache_before.get(hit, 0.0), context.cache_during.get(hit, 0.0)
    if not context.cache_before or not context.cache_during or before - during < HIT_DROP:
        return []
    if _is_chance(context, before, during):
        return []
    return [
        {
            "cause": CauseKind.CACHE_MISS.value,
            "score": min(0.8, 0.3 + (before - during)),
            "message": f"prefix-cache hits fell from {share_text(before)} to {share_text(during)} of requests",
            "before": dict(context.cache_before),
            "during": dict(context.cache_during),
        }
    ]


def _kv_pressure(context: Context) -> list[Cause]:
    preempted = context.preemptions
    more = preempted.during is not None and preempted.during > max(0.02, 2.0 * (preempted.before or 0.0))
    # One preemption within half a minute is 0.03 a second, and chance.
    more = more and not _are_chance(context, preempted.before or 0.0, preempted.during or 0.0)
    usage = context.kv_usage
    full = usage.during is not None and usage.during >= KV_FULL and (usage.before or 0.0) < KV_FULL
    if not (more or full):
        return []
    words = [f"{preempted.during:.2g} preemptions a second"] if more else []
    words += [f"KV cache {share_text(usage.during)} full"] if usage.during is not None else []
    return [
        {
            "cause": (CauseKind.PREEMPTION if more else CauseKind.KV_PRESSURE).value,
            "score": 0.75 if more else 0.5,
            "message": "memory for running requests is short: " + ", ".join(words),
            "preemptions_per_s": [preempted.before, preempted.during],
            "kv_usage": [usage.before, usage.during],
        }
    ]


def _host(context: Context, onset: datetime, config: Sequence[Cause], load: Sequence[Cause]) -> list[Cause]:
    came = [cause["first_seen"] or cause["reached_half_at"] for cause in config]
    changed = [None if moment is None else datetime.fromisoformat(moment) for moment in came]
    return host_causes(context.hosts, context.node_growth_s, onset, changed, more_load=bool(load))


def _one_node(context: Context) -> list[Cause]:
    growth = {node: max(0.0, grown) for node, grown in context.node_growth_s.items()}
    total = sum(growth.values())
    if len(growth) < 2 or total <= 0.0:
        return []
    worst = max(growth, key=lambda node: growth[node])
    if growth[worst] < NODE_SHARE * total:
        return []
    return [
        {
            "cause": CauseKind.ONE_NODE.value,
            "score": 0.7,
            "message": f"it is node {worst} alone, of {len(growth)}",
            "node": worst,
            "growth_s": dict(context.node_growth_s),
        }
    ]
