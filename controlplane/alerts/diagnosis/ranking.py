"""Causes in order: how much of the shift each explains, times how plausible its kind is (pure).

What a kind explains is read off the attribution: a change of the mix by the mix's share, a slow node by what that node
adds and the others do not share, preemption by the stages that it prolongs. Where nothing tells, the strength of the
evidence itself stands for it, weighed by what was learned of the kind.

A configuration that reached the pool at the onset goes first unless the data contradict it: its requests are no slower
than others', or what changed is the traffic.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from controlplane.alerts.diagnosis.plausibility import PRIOR
from controlplane.alerts.diagnosis.shift_parts import alone
from controlplane.contract.bodies.cause_kinds import CauseKind
from controlplane.contract.metrics import CACHE_CLASS, DECODE, ITL, NODE, PROMPT_BUCKET, QUEUE, REVISION, TENANT, TPOT
from controlplane.contract.on_call.attribution import Attribution, HowMoved, PlaceOfShift

Cause = dict[str, Any]

CONTRADICTED = 0.25
"""A configuration that explains less is not the cause, or not alone."""
TRAFFIC = (TENANT.label, PROMPT_BUCKET.label)
MOST_OF_LOAD = 0.8
"""Of the requests that came more: who sends so many of them is why they came."""
MORE_WORK = 1.25
"""Times as many tokens of prompts, or of answers: so much more is waited for. As of requests, where it is called
load."""
BATCH_FULL = 0.5
"""So much more requests running at once explain all that steps got slower by."""


@dataclass(frozen=True)
class Meanwhile:
    """By what factors more requests ran at once, answers were longer, and a token took more steps, as where drafts give
    fewer of them, than before; 1 where it is not known."""

    running: float = 1.0
    answers: float = 1.0
    steps: float = 1.0


AS_EVER = Meanwhile()


def ranked(
    found: Sequence[Cause],
    attribution: Attribution | None,
    plausibility: Mapping[str, float],
    meanwhile: Meanwhile = AS_EVER,
) -> list[Cause]:
    """Each with `score`, and with `share_explained` where that is known; the highest score first."""
    told = [_told(cause, attribution, plausibility, meanwhile) for cause in found]
    told = [_who_loads(cause, told) for cause in told]
    return sorted(told, key=lambda cause: (-float(cause["score"]), cause["cause"] == CauseKind.LOAD))


def share_explained(cause: Cause, attribution: Attribution | None, meanwhile: Meanwhile = AS_EVER) -> float | None:
    """0..1; None where the attribution does not tell of it."""
    if attribution is None or attribution.during_s <= attribution.before_s:
        return None
    kind = cause["cause"]
    share: float | None = None
    if kind == CauseKind.CONFIG_CHANGE:
        share = _of_revision(attribution)
    elif kind in MIXES:
        share = _mix(attribution, MIXES[kind])
        if (
            kind in PROMPT_WORK
            and attribution.metric in BY_TOKEN
            and cause.get("tokens_growth", MORE_WORK) >= MORE_WORK
        ):
            # A step in which more of a prompt is computed is longer for all who wait for their next token.
            return None
        if share is not None and kind == CauseKind.PROMPT_MIX:
            if float(cause.get("tokens_growth", 1.0)) >= MORE_WORK:
                # As of more requests: all wait for the longer ones, short prompts as well.
                share = max(share, _stage_shares(attribution).get(QUEUE.short, 0.0))
            # A tenant that sends more makes prompts longer: what that explains, it explains first.
            share -= _of_traffic(attribution, (TENANT.label,))
    elif kind in (CauseKind.ONE_NODE, CauseKind.ONE_GROUP):
        share = _within(attribution, cause)
    elif attribution.stages:
        share = _of_stages(kind, attribution, meanwhile)
    return None if share is None else min(max(share, 0.0), 1.0)


PROMPT_WORK = frozenset({CauseKind.PROMPT_MIX.value, CauseKind.CACHE_MISS.value})
"""More is computed of prompts."""
BY_TOKEN = frozenset({ITL.short, TPOT.short})
MIXES: Mapping[str, str] = {
    CauseKind.PROMPT_MIX.value: PROMPT_BUCKET.label,
    CauseKind.CACHE_MISS.value: CACHE_CLASS.label,
    CauseKind.TENANT_MIX.value: TENANT.label,
}


def _told(
    cause: Cause, attribution: Attribution | None, plausibility: Mapping[str, float], meanwhile: Meanwhile
) -> Cause:
    kind, fit = str(cause["cause"]), float(cause["score"])
    usual = PRIOR.get(kind, 0.0)
    if not usual:
        return cause
    plausible = plausibility.get(kind, usual)
    share = share_explained(cause, attribution, meanwhile)
    if share is None:
        return {**cause, "score": round(min(fit * plausible / usual, 1.0), 4)}
    if kind == CauseKind.CONFIG_CHANGE:
        # Its fit says how near to the onset it came.
        score = fit * plausible / usual * (1.0 if share > CONTRADICTED else share)
    else:
        score = plausible * share
    return {**cause, "score": round(min(score, 1.0), 4), "share_explained": round(share, 3)}


def _who_loads(cause: Cause, among: Sequence[Cause]) -> Cause:
    """A tenant that sends most of what came more is why the load rose: it explains as much, and goes before it."""
    load = next((one for one in among if one["cause"] == CauseKind.LOAD and "rate_before" in one), None)
    if cause["cause"] != CauseKind.TENANT_MIX or load is None:
        return cause
    before, during = float(load["rate_before"]), float(load["rate_during"])
    more = float(cause["during_share"]) * during - float(cause["before_share"]) * before
    if not cause.get("brings_load") and more < MOST_OF_LOAD * (during - before):
        return cause
    # What the load explains, the tenant does; where that is not known, neither is what the tenant does.
    told = {name: value for name, value in cause.items() if name != "share_explained"}
    explained = {"share_explained": load["share_explained"]} if "share_explained" in load else {}
    return max(cause, {**told, **explained, "score": load["score"]}, key=lambda one: float(one["score"]))


def _of_revision(attribution: Attribution) -> float | None:
    """A revision that comes is a change of the mix of revisions; what traffic changed, no configuration did."""
    come = _mix(attribution, REVISION.label)
    traffic = [_sure(place) for label in TRAFFIC for place in _mixes(attribution, label)]
    left = 1.0 - max(traffic, default=0.0)
    return left if come is None else min(come, left)


def _sure(place: PlaceOfShift) -> float:
    """The share of the shift that it explains at least."""
    return place.share * max(place.moved_s.low / place.moved_s.value, 0.0) if place.moved_s.value > 0.0 else 0.0


def _mixes(attribution: Attribution, label: str) -> list[PlaceOfShift]:
    return [place for place in attribution.places if place.label == label and place.how is HowMoved.MIX]


def _of_traffic(attribution: Attribution, labels: Sequence[str] = TRAFFIC) -> float:
    """What is named as a change of who sent, or of how long prompts were, explains."""
    named = [place.share for label in labels for place in _mixes(attribution, label) if place.named]
    return max(named, default=0.0)


def _mix(attribution: Attribution, label: str) -> float | None:
    return next((place.share for place in _mixes(attribution, label)), None)


def _within(attribution: Attribution, cause: Cause) -> float | None:
    label, value = (NODE.label, cause["node"]) if "node" in cause else (cause["label"], cause["value"])
    for place in attribution.places:
        if (place.label, place.value, place.how) == (label, value, HowMoved.WITHIN):
            # Who sent other requests is why some of them take longer.
            traffic = _of_traffic(attribution, [name for name in TRAFFIC if name != label])
            share = place.share * alone(place)
            if label == NODE.label and traffic > 0.0:
                # More work is waited for at the node that is full first, by chance: that does not tell of the node.
                share *= 1.0 - min(max(_stage_shares(attribution).get(QUEUE.short, 0.0), 0.0), 1.0)
            return share - traffic
    return None


def _stage_shares(attribution: Attribution) -> dict[str, float]:
    return {stage.stage: stage.share for stage in attribution.stages}


def _of_stages(kind: str, attribution: Attribution, meanwhile: Meanwhile) -> float | None:
    shares = _stage_shares(attribution)
    queue, decode = shares.get(QUEUE.short, 0.0), shares.get(DECODE.short, 0.0)
    longer = _of_more_steps(attribution, meanwhile.answers)
    if kind in (CauseKind.LOAD, CauseKind.ANSWER_MIX):
        beside = min(max((meanwhile.running - 1.0) / BATCH_FULL, 0.0), 1.0)
        own = queue if kind == CauseKind.LOAD else longer
        # Requests of another kind, or of somebody who sent more, take longer whoever runs beside them.
        return own + max(1.0 - own - _of_traffic(attribution), 0.0) * beside
    if kind in (CauseKind.PREEMPTION, CauseKind.KV_PRESSURE):
        # Memory is short because of longer prompts, or of answers that hold it for longer.
        held = _of_more_steps(attribution, meanwhile.answers * meanwhile.steps)
        return queue + decode - _of_traffic(attribution) - held
    if kind == CauseKind.ACCEPTANCE:
        return max(decode, 0.0) + (max(queue, 0.0) if meanwhile.steps >= MORE_WORK else 0.0)
    return None


def _of_more_steps(attribution: Attribution, growth: float) -> float:
    """Of answers that take so many times as many steps: what is waited for, for they hold their seats, and of decode as
    much as those more take at the old pace."""
    if growth < MORE_WORK:
        return 0.0
    found = 0.0
    for stage in attribution.stages:
        if stage.stage == QUEUE.short:
            found += stage.share
        elif stage.stage == DECODE.short and stage.during_s > stage.before_s:
            more_s = (growth - 1.0) * stage.before_s
            found += stage.share * min(more_s / (stage.during_s - stage.before_s), 1.0)
    return found
