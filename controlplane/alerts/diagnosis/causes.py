"""Likely causes of a slowdown, each with its evidence, from what else changed with it.

Each cause carries a `score` in 0..1 by which they are ordered: a heuristic, not a probability. A change of
configuration that reached the pool shortly before the slowdown comes first; with nothing found the cause is "unknown".
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from controlplane.alerts.diagnosis.host import Readings, host_causes
from controlplane.contract.metrics import PROMPT_BUCKETS, CacheClass

CONFIG_NEAR_S = 300.0
LOAD_GROWTH = 1.25
MIX_CHANGE = 0.15
HIT_DROP = 0.15
KV_FULL = 0.9
NODE_SHARE = 0.7

Cause = dict[str, Any]


@dataclass(frozen=True)
class RevisionSeen:
    """A configuration revision that served requests: shares of requests before and during, and its knobs if known."""

    number: int
    before_share: float
    during_share: float
    first_seen: datetime | None = None  # Its first window, when it was not there from the start.
    knobs: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Level:
    """The same thing before and during; None where it was not measured."""

    before: float | None = None
    during: float | None = None


@dataclass(frozen=True)
class Context:
    """What surrounds a slowdown. Mixes map a label to its share of requests; rates are per second."""

    revisions: Sequence[RevisionSeen] = ()
    rate: Level = Level()
    prompt_before: Mapping[str, float] = field(default_factory=dict)
    prompt_during: Mapping[str, float] = field(default_factory=dict)
    cache_before: Mapping[str, float] = field(default_factory=dict)
    cache_during: Mapping[str, float] = field(default_factory=dict)
    preemptions: Level = Level()
    kv_usage: Level = Level()
    running: Level = Level()
    waiting: Level = Level()
    node_growth_s: Mapping[str, float] = field(default_factory=dict)  # Growth of the metric's mean by node.
    hosts: Mapping[str, Readings] = field(default_factory=dict)  # What was measured of each node's host.
    ledger: Sequence[Mapping[str, Any]] = ()  # {"time", "kind", "subject", "message"} of changes around the onset.


def causes(context: Context, onset: datetime) -> list[Cause]:
    """The causes found, the likeliest first."""
    found = [
        *_config_change(context, onset),
        *_load(context),
        *_prompt_mix(context),
        *_cache_miss(context),
        *_kv_pressure(context),
        *_one_node(context),
        *_host(context, onset),
    ]
    if not found:
        found = [{"cause": "unknown", "score": 0.0, "message": "nothing else that is measured changed with it"}]
    return sorted(found, key=lambda cause: -float(cause["score"]))


def knob_changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Knob to [old, new], for those that differ."""
    names = sorted({*before, *after})
    return {name: [before.get(name), after.get(name)] for name in names if before.get(name) != after.get(name)}


def _config_change(context: Context, onset: datetime) -> list[Cause]:
    old = max(context.revisions, key=lambda seen: seen.before_share, default=None)
    found = []
    for new in context.revisions:
        risen = new.during_share - new.before_share
        if old is None or new.number == old.number or risen < 0.1:
            continue
        changed = knob_changes(old.knobs, new.knobs) if old.knobs and new.knobs else {}
        words = ", ".join(f"{name} {_word(pair[0])} -> {_word(pair[1])}" for name, pair in changed.items())
        message = f"configuration revision {new.number}" + (f" ({words})" if words else "")
        score = 0.6
        if new.first_seen is not None:
            lead_s = (onset - new.first_seen).total_seconds()
            score = 0.95 if abs(lead_s) <= CONFIG_NEAR_S else 0.5
            when = f"{lead_s:.0f} s before" if lead_s > 0 else "in the same moment"
            message += f" reached the pool {when}"
        found.append(
            {
                "cause": "config_change",
                "score": score,
                "message": message,
                "revision": new.number,
                "previous_revision": old.number,
                "changed": changed,
                "first_seen": None if new.first_seen is None else new.first_seen.isoformat(),
                "share_of_requests": round(new.during_share, 3),
                "ledger": list(context.ledger),
            }
        )
    return found


def _word(value: Any) -> str:
    return "unset" if value is None else str(value)


def _load(context: Context) -> list[Cause]:
    before, during = context.rate.before, context.rate.during
    waiting = f", {context.waiting.during:.0f} requests waiting" if context.waiting.during else ""
    if not before or during is None or during < LOAD_GROWTH * before:
        return []
    growth = during / before
    return [
        {
            "cause": "load",
            "score": min(0.9, 0.4 + 0.25 * (growth - 1.0)),
            "message": f"load rose from {before:.3g} to {during:.3g} requests a second{waiting}",
            "rate_before": before,
            "rate_during": during,
            "waiting_before": context.waiting.before,
            "waiting_during": context.waiting.during,
        }
    ]


def _prompt_mix(context: Context) -> list[Cause]:
    before, during = context.prompt_before, context.prompt_during
    if not before or not during:
        return []
    distance = sum(abs(during.get(name, 0.0) - before.get(name, 0.0)) for name in {*before, *during}) / 2.0
    place = {name: number for number, name in enumerate(PROMPT_BUCKETS)}
    longer = sum(place.get(name, 0) * share for name, share in during.items()) - sum(
        place.get(name, 0) * share for name, share in before.items()
    )
    if distance < MIX_CHANGE or longer <= 0.0:
        return []
    top = max(during, key=lambda name: during[name] - before.get(name, 0.0))
    return [
        {
            "cause": "prompt_mix",
            "score": min(0.8, 0.3 + distance),
            "message": (
                f"prompts got longer: {top} tokens were {before.get(top, 0.0):.0%} of requests, now {during[top]:.0%}"
            ),
            "before": dict(before),
            "during": dict(during),
        }
    ]


def _cache_miss(context: Context) -> list[Cause]:
    hit = CacheClass.HIT.value
    before, during = context.cache_before.get(hit, 0.0), context.cache_during.get(hit, 0.0)
    if not context.cache_before or not context.cache_during or before - during < HIT_DROP:
        return []
    return [
        {
            "cause": "cache_miss",
            "score": min(0.8, 0.3 + (before - during)),
            "message": f"prefix-cache hits fell from {before:.0%} to {during:.0%} of requests",
            "before": dict(context.cache_before),
            "during": dict(context.cache_during),
        }
    ]


def _kv_pressure(context: Context) -> list[Cause]:
    preempted = context.preemptions
    more = preempted.during is not None and preempted.during > max(0.02, 2.0 * (preempted.before or 0.0))
    usage = context.kv_usage
    full = usage.during is not None and usage.during >= KV_FULL and (usage.before or 0.0) < KV_FULL
    if not (more or full):
        return []
    words = [f"{preempted.during:.2g} preemptions a second"] if more else []
    words += [f"KV cache {usage.during:.0%} full"] if usage.during is not None else []
    return [
        {
            "cause": "preemption" if more else "kv_pressure",
            "score": 0.75 if more else 0.5,
            "message": "memory for running requests is short: " + ", ".join(words),
            "preemptions_per_s": [preempted.before, preempted.during],
            "kv_usage": [usage.before, usage.during],
        }
    ]


def _host(context: Context, onset: datetime) -> list[Cause]:
    risen = [seen.first_seen for seen in context.revisions if seen.during_share - seen.before_share >= 0.1]
    rate = context.rate
    load_growth = rate.during / rate.before if rate.before and rate.during is not None else None
    return host_causes(context.hosts, context.node_growth_s, onset, risen, load_growth)


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
            "cause": "one_node",
            "score": 0.7,
            "message": f"it is node {worst} alone, of {len(growth)}",
            "node": worst,
            "growth_s": dict(context.node_growth_s),
        }
    ]
