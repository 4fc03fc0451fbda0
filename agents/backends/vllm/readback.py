"""What a vLLM server runs, knob by knob with its source. Pure.

Guarantee: a value comes from vLLM's scheduler itself, by the plugin, or from vLLM's own account of its configuration; a
knob that neither tells is left out, never guessed.
"""

from collections.abc import Callable
from typing import Any

from agents.backends.vllm.further_knobs import SOURCES, further_live
from agents.backends.vllm.live_change import running
from agents.backends.vllm.weight_format import weight_format
from controlplane.contract import knobs
from controlplane.contract.bodies.nodes import ChangeCost, EffectiveConfig
from controlplane.contract.knobs import KNOBS, ChangeClass, Quantization

_SCHEDULER = {
    knobs.MAX_NUM_BATCHED_TOKENS: "vLLM scheduler: max_num_scheduled_tokens",
    knobs.PREFILL_CHUNK_SIZE: "vLLM scheduler: scheduler_config.long_prefill_token_threshold",
    knobs.MAX_NUM_SEQS: "vLLM scheduler: max_num_active_reqs",
    knobs.NUM_SPECULATIVE_TOKENS: "vLLM scheduler: draft length by batch size",
    knobs.QUANTIZATION: "vLLM model_config.quantization",
}
_INFO = "GET /server_info: "
_BOUNDS = ("capacity", "floor")
"""Parts of what the plugin tells."""
OWN_SCHEDULER = "tailwright_vllm."


def from_scheduler(told: dict[str, Any], costs: dict[ChangeClass, ChangeCost]) -> EffectiveConfig:
    """Out of effective.json: values read back from vLLM's scheduler."""
    live = told.get("live", [])
    runs = running(told)
    fixed = told.get("fixed", {})
    sources = {}
    further = further_live(told)
    for name in runs:
        if name not in _SCHEDULER:
            sources[name] = SOURCES[name] if name in further else told["flag_sources"][name]
            continue
        why = fixed.get(name) or "started so"
        sources[name] = _SCHEDULER[name] if name in live or name not in told["knobs"] else f"{_SCHEDULER[name]}; {why}"
    limits, floors = live_bounds(told)
    return EffectiveConfig(
        revision=told["revision"],
        knobs=runs,
        sources=sources,
        change_classes={name: ChangeClass.LIVE if name in live else ChangeClass.RESTART for name in KNOBS},
        live_limits=limits,
        live_floors=floors,
        limits={**limits, **_as_started({name: runs[name] for name in runs if name in KNOBS}, live)},
        declared=further,
        formats=_formats(runs),
        costs=costs,
    )


def live_bounds(told: dict[str, Any]) -> tuple[dict[str, int], dict[str, int]]:
    """The most and the least that each live knob can be moved to."""
    live = told.get("live", [])
    most, least = ({name: bound for name, bound in told.get(of, {}).items() if name in live} for of in _BOUNDS)
    return most, least


def from_server(config: dict[str, Any] | None, revision: int, costs: dict[ChangeClass, ChangeCost]) -> EffectiveConfig:
    """Out of GET /server_info, None where vLLM does not tell it: nothing can be moved."""
    runs: dict[str, Any] = {}
    sources: dict[str, str] = {}
    for name, read in _READERS.items() if config is not None else ():
        try:
            value, place = read(config or {})
        except (LookupError, TypeError, ValueError, AttributeError):
            continue  # Another vLLM's configuration: the knob is not known.
        runs[name], sources[name] = value, _INFO + place
    return EffectiveConfig(
        revision=revision,
        knobs=runs,
        sources=sources,
        change_classes=dict.fromkeys(KNOBS, ChangeClass.RESTART),
        limits=_as_started(runs, ()),
        formats=_formats(runs),
        costs=costs,
    )


def contradictions(told: dict[str, Any], config: dict[str, Any]) -> list[str]:
    """Where what the scheduler told at `told` cannot be of the server that accounts for itself in `config`."""
    found = []
    scheduler = config.get("scheduler_config")
    for name, most in told.get("capacity", {}).items():
        started = scheduler.get(name) if isinstance(scheduler, dict) else None
        if name == knobs.NUM_SPECULATIVE_TOKENS:
            speculative = config.get("speculative_config", {})
            started = 0 if speculative is None else speculative.get(name) if isinstance(speculative, dict) else None
        # The scheduler's token budget can be below what vLLM was started with, never above.
        wrong = most > started if name == knobs.MAX_NUM_BATCHED_TOKENS and started is not None else most != started
        if isinstance(started, int) and wrong:
            found.append(f"{name} {most}, while the server was started with {started}")
    return found


def _as_started(runs: dict[str, Any], live: Any) -> dict[str, int]:
    """A number that cannot be moved is its own limit."""
    return {name: value for name, value in runs.items() if isinstance(value, int) and name not in live}


def _formats(runs: dict[str, Any]) -> list[str]:
    value = runs.get(knobs.QUANTIZATION)
    return [value] if value in tuple(Quantization) else []


def _tokens(config: dict[str, Any]) -> tuple[int, str]:
    scheduler = _unmoved(config)
    for field in ("max_num_scheduled_tokens", "max_num_batched_tokens"):
        if scheduler.get(field) is not None:
            return _whole(scheduler[field]), f"scheduler_config.{field}"
    raise KeyError(field)


def _chunk(config: dict[str, Any]) -> tuple[int, str]:
    scheduler = _unmoved(config)
    if scheduler.get("long_prefill_token_threshold_adaptive"):
        raise ValueError("vLLM moves it by itself")
    return _whole(scheduler["long_prefill_token_threshold"]), "scheduler_config.long_prefill_token_threshold"


def _requests(config: dict[str, Any]) -> tuple[int, str]:
    scheduler = _unmoved(config)
    for field in ("max_num_active_seqs", "max_num_seqs"):
        if scheduler.get(field) is not None:
            return _whole(scheduler[field]), f"scheduler_config.{field}"
    raise KeyError(field)


def _drafts(config: dict[str, Any]) -> tuple[int, str]:
    _unmoved(config)
    speculative = config["speculative_config"]
    if speculative is None:
        return 0, "speculative_config"
    if speculative.get("num_speculative_tokens_per_batch_size"):
        raise ValueError("a schedule of vLLM's own")
    return _whole(speculative["num_speculative_tokens"]), "speculative_config.num_speculative_tokens"


def _quantization(config: dict[str, Any]) -> tuple[str, str]:
    name = config["model_config"]["quantization"]
    if name is not None and not isinstance(name, str):
        raise TypeError("quantization")
    return weight_format(name), "model_config.quantization"


def _unmoved(config: dict[str, Any]) -> dict[str, Any]:
    """The scheduler's configuration; with the plugin's scheduler its limits may have moved since the start."""
    scheduler: dict[str, Any] = config["scheduler_config"]
    if str(scheduler.get("scheduler_cls") or "").startswith(OWN_SCHEDULER):
        raise ValueError("limits may have moved")
    return scheduler


def _whole(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError(f"no whole number: {value!r}")
    return value


_READERS: dict[str, Callable[[dict[str, Any]], tuple[Any, str]]] = {
    knobs.MAX_NUM_BATCHED_TOKENS: _tokens,
    knobs.PREFILL_CHUNK_SIZE: _chunk,
    knobs.MAX_NUM_SEQS: _requests,
    knobs.NUM_SPECULATIVE_TOKENS: _drafts,
    knobs.QUANTIZATION: _quantization,
}
