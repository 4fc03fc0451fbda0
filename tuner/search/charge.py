"""What a change of configuration costs in time on the trial node, and whether a study can pay for it. Pure.

Guarantee: what this worker has measured itself goes before what the node reports, and that before the guesses below; a
guess is replaced by the first measurement. Until a configuration is in force is measured here, its warm-up by the node.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from controlplane.contract.bodies.change import expected_s, needed_class, warm_up_s
from controlplane.contract.bodies.nodes import EffectiveConfig, NodeView
from controlplane.contract.bodies.studies import StudyCreate
from controlplane.contract.knobs import QUANTIZATION, ChangeClass

GUESS_S = {ChangeClass.LIVE: 0.5, ChangeClass.SWAP: 2.0, ChangeClass.RESTART: 120.0}
CHEAP, TRIFLE_S = 0.5, 2.0
"""A change that costs at most this part of a run, or so few seconds, is not worth thinking about."""
AFTERWARDS = 2
"""Changes of the same cost that follow when a dear configuration wins: the re-measurement goes there and back."""


def cheap_s(run_s: float) -> float:
    """Up to here a change beside a run of `run_s` is cheap; live changes always are."""
    return max(CHEAP * run_s, TRIFLE_S)


def dear_s(change_s: float, run_s: float) -> float:
    """What a change beside a run of `run_s` counts for: all of it where it is dear, nothing where it is cheap."""
    return change_s if change_s > cheap_s(run_s) else 0.0


@dataclass
class Prices:
    """What changes cost on one node, by class."""

    _seconds: dict[ChangeClass, list[float]] = field(default_factory=dict)

    def paid(self, needed: ChangeClass | None, seconds: float) -> None:
        """A change of this class took so long."""
        if needed is not None:
            self._seconds.setdefault(needed, []).append(seconds)

    def of(self, needed: ChangeClass | None, effective: EffectiveConfig) -> float:
        """Expected seconds of the next one; 0 for none."""
        if needed is None:
            return 0.0
        paid = self._seconds.get(needed)
        if paid:
            return sum(paid) / len(paid) + warm_up_s(effective, needed)  # It has waited until it was in force.
        told = expected_s(effective, needed)
        return GUESS_S[needed] if told is None else told

    def between(
        self, backend: str, effective: EffectiveConfig, before: Mapping[str, Any], after: Mapping[str, Any]
    ) -> float:
        """Expected seconds of going from one configuration to another on this node."""
        return self.of(needed_class(backend, effective.model_copy(update={"knobs": dict(before)}), after), effective)


@dataclass(frozen=True)
class Budget:
    """What a search may spend on its next trial. `charge`: expected seconds of going to a configuration from what the
    node runs now; `run_s`: of measuring it; `left_s`: until the re-measurement has to begin.
    """

    charge: Callable[[Mapping[str, Any]], float]
    run_s: float
    left_s: float

    def cheap(self, knobs: Mapping[str, Any]) -> bool:
        return self.charge(knobs) <= cheap_s(self.run_s)

    def affords(self, knobs: Mapping[str, Any]) -> bool:
        """Whether the change, the run, and what follows if it wins fit into the time left."""
        return (1 + AFTERWARDS) * self.charge(knobs) + self.run_s <= self.left_s

    def runs_to_wait(self, knobs: Mapping[str, Any]) -> float:
        """How many runs a change is worth: between two such changes so many others are measured first."""
        return self.charge(knobs) / max(self.run_s, 1e-3)


def allowance_s(spec: StudyCreate, node: NodeView, default: Mapping[str, Any]) -> float:
    """Time set apart for restarts where the study may try another weight format: at most half of the whole."""
    effective = node.effective
    formats = [] if effective is None else [name for name in effective.formats if name != default[QUANTIZATION]]
    if effective is None or not formats or (spec.space and QUANTIZATION not in spec.space):
        return 0.0
    needed = needed_class(node.backend, effective, {**effective.knobs, QUANTIZATION: formats[0]})
    if needed is not ChangeClass.RESTART:
        return 0.0
    return min((1 + AFTERWARDS) * Prices().of(needed, effective), spec.max_duration_s / 2)
