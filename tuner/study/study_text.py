"""A study as text for people: the sentence of its verdict. Pure."""

from collections.abc import Mapping
from typing import Any

from controlplane.contract.bodies.studies import StudyCreate, StudyVerdict
from controlplane.contract.knobs import difference
from tuner.study.remeasure import INTERLEAVED, Improvement


def changes(knobs: Mapping[str, Any], default: Mapping[str, Any]) -> str:
    """ "max_num_batched_tokens 24 -> 512, quantization none -> int8"; "nothing" when they are equal."""
    found = difference(knobs, default, unreported=True)
    changed = [f"{name} {default[name]} -> {knobs[name]}" for name in knobs if name in found]
    return ", ".join(changed) or "nothing"


def summary_of(
    spec: StudyCreate,
    decided: StudyVerdict,
    winner: Mapping[str, Any],
    default: Mapping[str, Any],
    found: Improvement,
    excess: Mapping[str, float],
    *,
    design: str = INTERLEAVED,
) -> str:
    """The verdict with its evidence, in a sentence or two."""
    name = f"{spec.objective} p{spec.objective_q * 100:g}"
    interval = f"{_percent(found.low)} to {_percent(found.high)}, 95 %, {found.repeats} {_pairs(design)}{_looks(found)}"
    change = changes(winner, default)
    if decided is StudyVerdict.BETTER:
        return f"{name} falls by {_percent(found.estimate)} ({interval}) with {change}; every limit held."
    broken = [f"{name_} by {_percent(value)}" for name_, value in excess.items() if value > 0]
    reason = f"it exceeded {', '.join(broken)}" if broken else "the interval does not exclude zero"
    return (
        f"Keep what runs now: the best candidate ({change}) lowers {name} by {_percent(found.estimate)} ({interval}), "
        f"and {reason}."
    )


def _pairs(design: str) -> str:
    if design == INTERLEAVED:
        return "interleaved pairs"
    return "pairs measured in blocks, since each change takes long: an unsteady machine is not excluded"


def _looks(found: Improvement) -> str:
    return ", looked at twice at most" if found.looks > 1 else ""


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"
