"""Can a running vLLM be moved to a wanted configuration while it serves? Pure: no I/O, no clock."""

from dataclasses import dataclass
from typing import Any

from agents.vllm_backend.weight_format import weight_format
from controlplane.contract import knobs
from controlplane.contract.knobs import EngineConfig


@dataclass(frozen=True)
class Obstacle:
    """A knob that only a restart can bring to its wanted value. `maximum`: up to which it would have been live."""

    knob: str
    message: str
    maximum: int | None = None


def running(told: dict[str, Any]) -> dict[str, Any]:
    """Every knob's value, out of what the plugin's scheduler tells (`PluginLink.read_effective`)."""
    return {**told["knobs"], knobs.QUANTIZATION: weight_format(told.get("quantization"))}


def obstacles(wanted: EngineConfig, told: dict[str, Any]) -> list[Obstacle]:
    """Why the server has to start again for `wanted`; empty when all of it is live."""
    found: list[Obstacle] = []
    live, capacity, runs = told.get("live", []), told.get("capacity", {}), running(told)
    for name, value in wanted.knobs().items():
        if name not in live:
            if value != runs.get(name):
                found.append(Obstacle(name, f"{value!r} needs a restart of vLLM, which runs {runs.get(name)!r}"))
        elif (most := capacity.get(name)) is not None and largest(value) > most:
            message = f"{largest(value)} is above {most}, with which vLLM was started"
            found.append(Obstacle(name, message, most))
    return found


def largest(value: Any) -> int:
    """A knob's number; of a draft schedule its longest draft."""
    return max(tokens for _, tokens in value) if isinstance(value, list | tuple) else int(value)
