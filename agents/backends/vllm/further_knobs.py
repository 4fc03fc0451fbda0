"""The knobs that the plugin moves beside the contract's own, on a vLLM that has them: in its scheduler, and the queue
limits in its server process.

Guarantee: such a knob is told, and may be asked for, only while the process of the server that runs says that it can
move it; a node file may narrow its range.
"""

from collections.abc import Mapping
from typing import Any

from controlplane.contract.knobs import ChangeClass, Scalar
from controlplane.contract.reports.declared_knobs import Declared, DeclaredKnob

WATERMARK = "watermark"
PREFILL_SCHEDULE_INTERVAL = "prefill_schedule_interval"
MAX_NUM_QUEUED_REQS = "max_num_queued_reqs"
MAX_NUM_QUEUED_TOKENS = "max_num_queued_tokens"
NO_LIMIT = {MAX_NUM_QUEUED_REQS: 10**6, MAX_NUM_QUEUED_TOKENS: 10**8}
"""The queue limits, and for which number of each vLLM has None. It is the largest, so that more always lets in more: a
search has an order to go by, which 0 for none would break, and vLLM's own 0 refuses everything."""
FURTHER: dict[str, DeclaredKnob] = {
    WATERMARK: DeclaredKnob(
        change_class=ChangeClass.LIVE,
        start=0.0,
        minimum=0.0,
        maximum=0.9,
        unit="share of the KV cache",
        help="Blocks that stay free when a request that waits is let in beside others.",
    ),
    PREFILL_SCHEDULE_INTERVAL: DeclaredKnob(
        change_class=ChangeClass.LIVE,
        start=1,
        minimum=1,
        maximum=64,
        log=True,
        unit="steps",
        help="While somebody decodes, prompts are computed in every so many steps only; 1: in each.",
    ),
    MAX_NUM_QUEUED_REQS: DeclaredKnob(
        change_class=ChangeClass.LIVE,
        start=NO_LIMIT[MAX_NUM_QUEUED_REQS],
        minimum=1,
        maximum=NO_LIMIT[MAX_NUM_QUEUED_REQS],
        log=True,
        unit="requests",
        help="While so many wait or run, who comes is refused with 503; 1000000: no limit.",
    ),
    MAX_NUM_QUEUED_TOKENS: DeclaredKnob(
        change_class=ChangeClass.LIVE,
        start=NO_LIMIT[MAX_NUM_QUEUED_TOKENS],
        minimum=1,
        maximum=NO_LIMIT[MAX_NUM_QUEUED_TOKENS],
        log=True,
        unit="tokens",
        help="While the prompts that wait for their first token have so many, who comes is refused with 503; "
        "100000000: no limit.",
    ),
}
SOURCES = {
    WATERMARK: "vLLM KV cache manager: watermark_blocks of all blocks",
    PREFILL_SCHEDULE_INTERVAL: "vLLM scheduler: throttle_prefills of schedule(), as the plugin asks for it",
    MAX_NUM_QUEUED_REQS: "vLLM server: scheduler_config.max_num_queued_reqs",
    MAX_NUM_QUEUED_TOKENS: "vLLM server: scheduler_config.max_num_queued_tokens",
}


def with_queue_limits(told: Mapping[str, Any], queue: Mapping[str, Any]) -> dict[str, Any]:
    """What the scheduler tells, and what vLLM's server process tells of its queue limits, if anything."""
    limits = queue.get("limits")
    own: dict[str, Any] = {name: limits.get(name) for name in NO_LIMIT} if isinstance(limits, Mapping) else {}
    numbered = {name: _numbered(name, one) for name, one in own.items() if _is_told(one)}
    return {**told, "more": {**told.get("more", {}), **numbered}, "queue_limits": dict(queue)}


def knob_file_parts(more: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Further knobs as the knob file has them: the scheduler's, and the server's in vLLM's own terms."""
    queue = {name: None if value == NO_LIMIT[name] else value for name, value in more.items() if name in NO_LIMIT}
    parts = {"more": {name: value for name, value in more.items() if name not in NO_LIMIT}, "queue_limits": queue}
    return {name: part for name, part in parts.items() if part}


def queue_limits_change(more: Mapping[str, Any], told: Mapping[str, Any]) -> bool:
    """Does what is wanted change a queue limit that runs?"""
    runs = further_running(told)
    return any(more[name] != runs.get(name) for name in more if name in NO_LIMIT)


def further_live(told: Mapping[str, Any]) -> dict[str, DeclaredKnob]:
    """Those that this server can move, with what each was at vLLM's start."""
    return {
        name: knob.model_copy(update={"start": knob.reads(own["started"])})
        for name, knob in FURTHER.items()
        if _is_live(own := told.get("more", {}).get(name))
    }


def further_running(told: Mapping[str, Any]) -> dict[str, Scalar]:
    """What of them runs."""
    return {name: knob.reads(told["more"][name]["runs"]) for name, knob in further_live(told).items()}


def further_wanted(wanted: Mapping[str, Any], told: Mapping[str, Any], declared: Declared) -> dict[str, Any]:
    """For the plugin: each that it can move, as it was at the start where nothing is wanted of it.

    `declared`: what the node file says of them, whose start counts then.
    """
    live = {**further_live(told), **{name: knob for name, knob in declared.items() if name in FURTHER}}
    return {name: wanted.get(name, live[name].start) for name in further_live(told)}


def _numbered(name: str, own: dict[str, Any]) -> dict[str, Any]:
    """Of one that stays and has None it is not known whether that is no limit."""
    if own.get("why_not"):
        return own
    return {**own, **{place: NO_LIMIT[name] if own[place] is None else own[place] for place in ("runs", "started")}}


def _is_told(own: Any) -> bool:
    places = (own.get(place, "") for place in ("runs", "started")) if isinstance(own, dict) else ("",)
    return all(value is None or (isinstance(value, int) and not isinstance(value, bool)) for value in places)


def _is_live(own: Any) -> bool:
    return isinstance(own, dict) and not own.get("why_not") and None not in (own.get("runs"), own.get("started"))
