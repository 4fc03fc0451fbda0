"""A study as text for people: the sentence of its verdict. Pure."""

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from controlplane.contract.bodies.knob_schema import OF_GOOD, OF_LOADS
from controlplane.contract.bodies.studies import (
    AlsoFound,
    Costs,
    Evaluation,
    StudyCreate,
    StudyVerdict,
    Trial,
)
from controlplane.contract.knobs import difference
from controlplane.contract.planning.carried_text import carried_text, limits_text
from controlplane.contract.planning.cost_text import costs_text
from controlplane.contract.planning.measurement import Carries
from controlplane.contract.planning.objective_text import also_text, carries_nothing, change_ends, change_text
from controlplane.contract.planning.quality_text import evaluation_text, quality_text
from controlplane.contract.planning.replayed_traffic_name import traffic_words
from tuner.study.paired_test import Improvement
from tuner.study.remeasure import INTERLEAVED

WORST_TOLD = 10.0
"""An interval of the improvement that begins below minus so many times is of too few pairs to be told."""


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
    unsure: Sequence[str] = (),
    *,
    design: str = INTERLEAVED,
    payback_s: float | None = None,
    carries: tuple[Carries | None, Carries | None] = (None, None),
    quality: Mapping[str, float] = MappingProxyType({}),
    evaluation: Evaluation | None = None,
    also: Sequence[AlsoFound] = (),
    costs: Costs | None = None,
) -> str:
    """The verdict with its evidence, in a few sentences. `carries`: the winner's largest load, and the default's.
    `quality`: of the winner's weight format. `also`: the further objectives."""
    of = f"of {traffic_words(spec.workload)} " if spec.workload else ""
    pairs = f"{found.repeats} {_pairs(design)} on traffic {of}that the search did not see"
    if found.low == -math.inf:
        interval = pairs
    elif found.low < -WORST_TOLD:
        interval = f"{pairs}, too few to bound it"
    else:
        low, high = change_ends(spec.objectives[0], found.estimate, (found.low, found.high))
        interval = f"{_percent(low)} to {_percent(high)}, 95 %, {pairs}"
    change = changes(winner, default)
    done = change_text(spec.objectives[0], found.estimate)
    if decided is StudyVerdict.BETTER:
        repaid = "" if payback_s is None else f"; repaid after {_duration(payback_s)} of serving"
        held = "few enough were lost" if spec.objective in OF_GOOD else "every limit held"
        if spec.objective in OF_LOADS and None not in carries:
            held = carries_text(spec, *carries)
        told = _beside(spec, carries, also, costs) + quality_sentences(quality, evaluation)
        return f"{done} ({interval}) with {change}; {held}{repaid}.{told}"
    broken = [f"{name_} by {_percent(value)}" for name_, value in excess.items() if value > 0]
    if broken:
        reason = f"it exceeded {', '.join(broken)}"
    elif found.low > 0:
        reason = f"it may exceed {', '.join(unsure)}" if unsure else "its evaluation does not hold"
        if not unsure and sum(one.held for one in also) < len(spec.also):
            reason = "it may be worse than the default in a further objective"
    else:
        reason = "the interval does not exclude zero"
    told = _beside(spec, carries, also, costs) + quality_sentences(quality, evaluation)
    if carries_nothing(spec, *carries):
        within = limits_text(spec.constraints)
        return (
            f"Keep what runs now: neither it nor the best candidate ({change}) kept {within} at the least load that "
            f"was tried, in {pairs}. Looser limits, or lighter traffic, would tell them apart.{told}"
        )
    loads = (
        "" if None in carries or spec.objective not in OF_LOADS else f" {upper_first(carries_text(spec, *carries))}."
    )
    return f"Keep what runs now: with the best candidate ({change}) {done} ({interval}), and {reason}.{loads}{told}"


def nothing_kept(spec: StudyCreate, trials: Sequence[Trial]) -> str:
    """What no trial of the search kept, where that is all that could tell them apart; empty where one did."""
    measured = [trial.measurement for trial in trials if trial.measurement is not None]
    limits = limits_text(spec.constraints)
    if spec.objective in OF_GOOD and not any(one.good for one in measured):
        return f"no request of any trial kept {limits}"
    if spec.objective in OF_LOADS and not any(one.carried is not None and one.carried.load for one in measured):
        return f"no configuration kept {limits} at the least load that was tried"
    return ""


def _beside(
    spec: StudyCreate, carries: tuple[Carries | None, Carries | None], also: Sequence[AlsoFound], costs: Costs | None
) -> str:
    """A sentence each, with a space before it, of what is no part of the first objective."""
    told = [", ".join(map(also_text, also))]
    if spec.objective not in OF_LOADS and None not in carries:
        told.append(carries_text(spec, *carries))
    if costs is not None:
        told.append(costs_text(costs, spec))
    return "".join(f" {upper_first(one)}." for one in told if one)


def quality_sentences(quality: Mapping[str, float], evaluation: Evaluation | None) -> str:
    """A sentence each, with a space before it; empty where there is nothing to tell."""
    told = (quality_text(quality), "" if evaluation is None else evaluation_text(evaluation))
    return "".join(f" {upper_first(one)}." for one in told if one)


def carries_text(spec: StudyCreate, winner: Carries | None, default: Carries | None) -> str:
    """ "it carries 2.4 times the captured load (2.1 to 2.7), within ttft p95 <= 500 ms, the default ..."; what is None
    is left out."""
    within = f", within {limits_text(spec.constraints)}"
    told = "" if default is None else f"the default {'carries ' if winner is None else ''}{carried_text(default)}"
    if winner is None:
        return f"{told}{within}"
    return f"it carries {carried_text(winner)}{within}{told and ', '}{told}"


def upper_first(text: str) -> str:
    return text[:1].upper() + text[1:]


def _pairs(design: str) -> str:
    if design == INTERLEAVED:
        return "interleaved pairs"
    return "pairs measured in blocks, since each change takes long: an unsteady machine is not excluded"


def _duration(seconds: float) -> str:
    return (
        f"{seconds:.0f} s"
        if seconds < 120
        else f"{seconds / 60:.0f} min"
        if seconds < 7200
        else f"{seconds / 3600:.1f} h"
    )


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"
