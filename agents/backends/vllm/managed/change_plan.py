"""How a wanted configuration comes into force on a managed server. Pure: no I/O, no clock."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from agents.backends.vllm.further_knobs import further_live
from agents.backends.vllm.live_change import obstacles, running
from agents.backends.vllm.node_file import StandbyUse
from controlplane.contract.knobs import ChangeClass, EngineConfig


class Way(StrEnum):
    """The ways, from the cheapest."""

    NOTHING = "nothing"  # It is in force.
    LIVE = "live"  # The scheduler takes it up while it serves.
    STANDBY = "standby"  # A second server comes up beside the running one and takes its place: no request waits.
    RESTART = "restart"  # The server drains, stops, and another starts: requests wait meanwhile.


COST_CLASS = {Way.LIVE: ChangeClass.LIVE, Way.STANDBY: ChangeClass.SWAP, Way.RESTART: ChangeClass.RESTART}


@dataclass(frozen=True)
class Running:
    """What the active server runs. `told`: its scheduler's own words, None without the plugin."""

    config: EngineConfig
    revision: int
    told: dict[str, Any] | None


@dataclass(frozen=True)
class Room:
    """Host memory in bytes: what a standby needs and what is free; None where that cannot be known, `why` not."""

    needs: int | None
    free: int | None
    why: str = ""


@dataclass(frozen=True)
class Plan:
    """The way and, in words, why it has to be this one."""

    way: Way
    reasons: tuple[str, ...] = ()


def plan(wanted: EngineConfig, revision: int, runs: Running | None, use: StandbyUse, room: Room) -> Plan:
    """The cheapest way that brings all of `wanted` into force."""
    if runs is None:
        return Plan(Way.RESTART, ("no server runs",))
    reasons = _what_is_in_the_way(wanted, runs)
    if reasons:
        allowed, why = standby_allowed(use, room)
        return Plan(Way.STANDBY if allowed else Way.RESTART, (*reasons, why))
    told = runs.told
    if told is None:
        return Plan(Way.NOTHING)
    live, runs_now = {*told["live"], *further_live(told)}, running(told)
    same = all(runs_now.get(name) == value for name, value in wanted.knobs().items() if name in live)
    return Plan(Way.NOTHING if same and told["revision"] == revision else Way.LIVE)


def standby_allowed(use: StandbyUse, room: Room) -> tuple[bool, str]:
    """May a second server come up beside the running one? And why, or why not."""
    if use is not StandbyUse.AUTO:
        return use is StandbyUse.ALWAYS, f"the node file says standby = {use.value}"
    if room.needs is None or room.free is None:
        return False, f"no standby: {room.why}; set standby_needs_bytes in the node file to allow one"
    if room.needs > room.free:
        return False, f"no standby: it needs {_gib(room.needs)} of memory, {_gib(room.free)} are free"
    return True, f"a standby fits: it needs {_gib(room.needs)} of memory, {_gib(room.free)} are free"


def _what_is_in_the_way(wanted: EngineConfig, runs: Running) -> list[str]:
    if runs.told is not None:
        return [f"{obstacle.knob}: {obstacle.message}" for obstacle in obstacles(wanted, runs.told)]
    before = runs.config.knobs()
    return [
        f"{name}: {value!r} needs a restart of vLLM, which runs {before.get(name)!r} without the plugin"
        for name, value in wanted.knobs().items()
        if value != before.get(name)
    ]


def _gib(size: int) -> str:
    return f"{size / 2**30:.1f} GiB"
