"""What can be moved on a vLLM node, knob by knob: what it runs, up to where a change is live, and what is beyond.

Pure but for the reading of its sources, of which the best that there is counts: what the scheduler itself tells
(effective.json), what the server tells of its start (GET /server_info), what the node file says it will start with.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.table import Table

from agents.backends.vllm.further_knobs import FURTHER, NO_LIMIT
from controlplane.contract import knobs

LIVE = (knobs.MAX_NUM_BATCHED_TOKENS, knobs.PREFILL_CHUNK_SIZE, knobs.MAX_NUM_SEQS, knobs.NUM_SPECULATIVE_TOKENS)
BY_HAND = "restart, by you, with a larger capacity"
BY_AGENT = "standby or restart, by the agent"


@dataclass(frozen=True)
class Row:
    """One knob. `live`: the range in which a change takes effect at the next step, empty where there is none."""

    knob: str
    runs: str
    live: str
    beyond: str
    why: str = ""

    def as_json(self) -> dict[str, str]:
        return asdict(self)


def from_scheduler(told: Mapping[str, Any], *, managed: bool) -> list[Row]:
    """By effective.json, the plugin's scheduler's own words."""
    capacity, floor, fixed = told.get("capacity", {}), told.get("floor", {}), told.get("fixed", {})
    rows = []
    for name in LIVE:
        runs = _text(told["knobs"].get(name))
        if name in told.get("live", []):
            rows.append(Row(name, runs, _range(name, capacity, floor), _beyond(name, managed)))
        else:
            rows.append(Row(name, runs, "", _restart(managed), str(fixed.get(name, "not told"))))
    for name, own in told.get("more", {}).items():
        within = f"{FURTHER[name].minimum:.10g} to {FURTHER[name].maximum:.10g}" if name in FURTHER else "any"
        within += " = no limit" if name in NO_LIMIT else ""
        rows.append(
            Row(name, _text(own.get("runs")), "" if own.get("why_not") else within, "-", own.get("why_not", ""))
        )
    return [*rows, _weights(told.get("quantization"), managed)]


def from_server(config: Mapping[str, Any], *, plugin: bool, managed: bool) -> list[Row]:
    """By vLLM's configuration (`vllm_config` of GET /server_info). `plugin`: its scheduler class is the plugin's."""
    scheduler = config.get("scheduler_config") or {}
    speculative = config.get("speculative_config") or {}
    tokens = scheduler.get("max_num_scheduled_tokens") or scheduler.get("max_num_batched_tokens")
    seqs, drafts = scheduler.get("max_num_seqs"), speculative.get("num_speculative_tokens") or 0
    runs = {
        knobs.MAX_NUM_BATCHED_TOKENS: tokens,
        knobs.PREFILL_CHUNK_SIZE: scheduler.get("long_prefill_token_threshold"),
        knobs.MAX_NUM_SEQS: scheduler.get("max_num_active_seqs") or seqs,
        knobs.NUM_SPECULATIVE_TOKENS: drafts,
    }
    capacity = {knobs.MAX_NUM_BATCHED_TOKENS: tokens, knobs.MAX_NUM_SEQS: seqs, knobs.NUM_SPECULATIVE_TOKENS: drafts}
    why = "" if plugin else "the scheduler is vLLM's own"
    rows = [_started(name, _text(runs[name]), capacity, why, managed) for name in LIVE]
    return [*rows, _weights((config.get("model_config") or {}).get("quantization"), managed)]


def from_node_file(
    capacity: Mapping[str, int],
    limits: Mapping[str, int],
    formats: list[str],
    initial: Mapping[str, Any],
    *,
    plugin: bool,
) -> list[Row]:
    """By what the agent is going to start."""
    why = "" if plugin else "the plugin is not installed there"
    rows = []
    for name in LIVE:
        row = _started(name, _text(initial.get(name)), capacity, why, managed=True)
        beyond = f"up to {limits[name]}: {BY_AGENT}" if name in limits else row.beyond
        rows.append(Row(name, row.runs, row.live, beyond, row.why))
    others = ", ".join(formats)
    return [*rows, Row(knobs.QUANTIZATION, _text(initial.get(knobs.QUANTIZATION)), "", f"{others}: {BY_AGENT}")]


def drawn(rows: list[Row], title: str) -> Table:
    shown = Table(title=title, title_justify="left", box=SIMPLE_HEAD)
    for heading, whole in (("knob", True), ("runs", True), ("live within", True), ("beyond that", False)):
        shown.add_column(heading, no_wrap=whole)
    for row in rows:
        shown.add_row(row.knob, row.runs, row.live or "-", f"{row.beyond} ({row.why})" if row.why else row.beyond)
    return shown


def _started(name: str, runs: str, capacity: Mapping[str, Any], why: str, managed: bool) -> Row:
    if not why and name == knobs.NUM_SPECULATIVE_TOKENS and not capacity.get(name):
        why = "vLLM is started without drafts (--speculative-config)"
    if why:
        return Row(name, runs, "", _restart(managed), why)
    return Row(name, runs, _range(name, capacity, {}), _beyond(name, managed))


def _range(name: str, capacity: Mapping[str, Any], floor: Mapping[str, Any]) -> str:
    least = floor.get(name, knobs.KNOBS[name].minimum)
    if name == knobs.PREFILL_CHUNK_SIZE:
        return "any, 0 = off" if least in (0, 1, None) else f"from {least}, 0 = off"
    return f"{least} to {capacity.get(name, '?')}"


def _beyond(name: str, managed: bool) -> str:
    return "-" if name == knobs.PREFILL_CHUNK_SIZE else _restart(managed)


def _restart(managed: bool) -> str:
    return BY_AGENT if managed else BY_HAND


def _weights(name: Any, managed: bool) -> Row:
    beyond = BY_AGENT if managed else "restart, by you, with other weights"
    return Row(knobs.QUANTIZATION, str(name or "none"), "", beyond, "weights are loaded at the start")


def _text(value: Any) -> str:
    return "not known" if value is None else str(value)
