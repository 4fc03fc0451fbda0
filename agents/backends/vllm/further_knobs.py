"""The knobs that the plugin's scheduler moves beside the contract's own, on a vLLM that has them.

Guarantee: such a knob is told, and may be asked for, only while the scheduler of the server that runs says that it can
move it; a node file may narrow its range.
"""

from collections.abc import Mapping
from typing import Any

from controlplane.contract.knobs import ChangeClass, Scalar
from controlplane.contract.reports.declared_knobs import Declared, DeclaredKnob

WATERMARK = "watermark"
PREFILL_SCHEDULE_INTERVAL = "prefill_schedule_interval"
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
}
SOURCES = {
    WATERMARK: "vLLM KV cache manager: watermark_blocks of all blocks",
    PREFILL_SCHEDULE_INTERVAL: "vLLM scheduler: throttle_prefills of schedule(), as the plugin asks for it",
}


def further_live(told: Mapping[str, Any]) -> dict[str, DeclaredKnob]:
    """Those that this scheduler can move, with what each was at vLLM's start."""
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


def _is_live(own: Any) -> bool:
    return isinstance(own, dict) and not own.get("why_not") and None not in (own.get("runs"), own.get("started"))
