"""Can a running vLLM be moved to a wanted configuration while it serves? Pure: no I/O, no clock."""

from dataclasses import dataclass
from typing import Any

from agents.backends.vllm.further_knobs import further_live, further_running
from agents.backends.vllm.weight_format import weight_format
from controlplane.contract import knobs
from controlplane.contract.knobs import EngineConfig, difference, largest


@dataclass(frozen=True)
class Obstacle:
    """A knob that only a restart can bring to its wanted value. It would have been live from `minimum` to `maximum`."""

    knob: str
    message: str
    maximum: int | None = None
    minimum: int | None = None


def running(told: dict[str, Any]) -> dict[str, Any]:
    """Every known knob's value, out of what the plugin's scheduler tells (`PluginLink.read_effective`)."""
    found = {name: value for name, value in told["knobs"].items() if value is not None}
    own = {knobs.QUANTIZATION: weight_format(told.get("quantization"))}
    return {**found, **own, **told.get("flags", {}), **further_running(told)}


def obstacles(wanted: EngineConfig, told: dict[str, Any]) -> list[Obstacle]:
    """Why the server has to start again for `wanted`; empty when all of it is live."""
    found: list[Obstacle] = []
    live, capacity, floor = (
        [*told.get("live", []), *further_live(told)],
        told.get("capacity", {}),
        told.get("floor", {}),
    )
    runs = running(told)
    differing = difference(wanted.knobs(), runs, unreported=True)
    for name, value in wanted.knobs().items():
        if name not in live:
            if name in differing:
                found.append(Obstacle(name, f"{value!r} needs a restart of vLLM, which runs {_shown(runs.get(name))}"))
        elif (most := capacity.get(name)) is not None and largest(value) > most:
            message = f"{largest(value)} is above {most}, with which vLLM was started"
            found.append(Obstacle(name, message, maximum=most))
        elif (least := floor.get(name)) is not None and 0 < largest(value) < least:
            message = f"{largest(value)} is below {least}, the least that this vLLM's scheduler can work with"
            found.append(Obstacle(name, message, minimum=least))
    return found


def _shown(value: Any) -> str:
    return "an unknown value" if value is None else repr(value)
