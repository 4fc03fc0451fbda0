"""Causes that the attribution itself shows: which requests got slower, or came to be more (pure)."""

from typing import Any

from controlplane.alerts.diagnosis.change_event import lag_text
from controlplane.alerts.diagnosis.plausibility import PRIOR
from controlplane.contract.bodies.cause_kinds import CauseKind
from controlplane.contract.channels.inbound import EVENT_POSTED
from controlplane.contract.metrics import CACHE_CLASS, NODE, PROMPT_BUCKET, TENANT, CacheClass
from controlplane.contract.on_call.attribution import Attribution, HowMoved, PlaceOfShift
from controlplane.contract.share_text import share_text

GROUPS = {
    PROMPT_BUCKET.label: "prompts of {} tokens",
    CACHE_CLASS.label: "prompts with a cache {}",
    TENANT.label: "tenant {}",
}


def place_causes(attribution: Attribution | None) -> list[dict[str, Any]]:
    """One for each place that is named, and that tells a cause by itself."""
    named = [] if attribution is None else [place for place in attribution.places if place.named]
    return [cause for place in named if (cause := _cause(place)) is not None]


def tenant_mix(tenant: str, before: float, during: float) -> dict[str, Any]:
    """before, during: its share of the requests."""
    told = {"label": TENANT.label, "value": tenant, "before_share": before, "during_share": during}
    return _of(CauseKind.TENANT_MIX, f"tenant {tenant} sent more: it was {_went(before, during)}", told)


def unknown(attribution: Attribution | None) -> dict[str, Any]:
    """Where nothing explains it: what others say they did before is told, where it may be near by chance."""
    message, after = "nothing else that is measured changed with it", None if attribution is None else attribution.after
    if after is not None and after.kind == EVENT_POSTED:
        message += f"; {after.message} came {lag_text(after)}"
    return {"cause": CauseKind.UNKNOWN.value, "score": 0.0, "message": message}


def _cause(place: PlaceOfShift) -> dict[str, Any] | None:
    if place.how is HowMoved.MIX and place.label == TENANT.label:
        return tenant_mix(place.value, place.before, place.during)
    told = {"label": place.label, "value": place.value, "before_share": place.before, "during_share": place.during}
    if place.how is HowMoved.MIX:
        kind, message = _mix(place)
        return None if kind is None else _of(kind, message, told)
    factor = f", {place.own_factor:.3g} times as slow" if place.own_factor else ""
    if place.label == NODE.label:
        return {**_of(CauseKind.ONE_NODE, f"it is node {place.value} alone{factor}", told), "node": place.value}
    if place.label in GROUPS:
        who = GROUPS[place.label].format(place.value)
        return _of(CauseKind.ONE_GROUP, f"it is {who} alone{factor}", told)
    return None


def _mix(place: PlaceOfShift) -> tuple[CauseKind | None, str]:
    went = _went(place.before, place.during)
    if place.label == PROMPT_BUCKET.label:
        return CauseKind.PROMPT_MIX, f"the mix of prompts changed: those of {place.value} tokens were {went}"
    if place.label == CACHE_CLASS.label and place.value != CacheClass.HIT:
        return CauseKind.CACHE_MISS, f"prompts with a cache {place.value} were {went}"
    return None, ""


def _went(before: float, during: float) -> str:
    return f"{share_text(before, 1)} of requests, now {share_text(during, 1)}"


def _of(kind: CauseKind, message: str, told: dict[str, Any]) -> dict[str, Any]:
    return {"cause": kind.value, "score": PRIOR[kind], "message": message, **told}
