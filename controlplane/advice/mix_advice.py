"""Whether a pool's traffic is still what its last promoted study was measured on; if not, the study to ask for. Pure.

Guarantee: it is said to have drifted only where some part of its mix has, by its whole interval (`evidence.mix_drift`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from statistics import fmean, median
from urllib.parse import urlencode

from controlplane.advice.trial_addresses import STUDY, range_text
from controlplane.contract.bodies.knob_schema import OF_LIMITS
from controlplane.contract.bodies.studies import Objective, StudyCreate
from controlplane.contract.knobs import KNOBS
from controlplane.contract.planning.advice import MixAdvice, MixPart, MixState, PartShift
from controlplane.contract.planning.traffic_mix import LOOK_BACK, TrafficMix
from controlplane.evidence.mix_drift import FEWEST_VALUES, shifts

LONGEST_WORD = 200
"""Characters that the dashboard takes of one field in an address."""
SAME_AIM = (
    *("load", "workload_s", "load_replays", "node_hour_price", "currency", "also_tolerance"),
    *("max_lost_share", "least_agreement", "most_logprob_drop", "evaluation", "evaluation_margin"),
)
"""Fields of a study by which its winner is chosen, and which it must hold, beside its objectives and limits."""
WORDS = {
    MixPart.PROMPTS: ("prompts are longer", "prompts are shorter"),
    MixPart.ANSWERS: ("answers are longer", "answers are shorter"),
    MixPart.PREFIXES: ("more of the prompts is repeated", "less of the prompts is repeated"),
    MixPart.ARRIVALS: ("requests come more seldom", "requests come more often"),
}
"""Of a part whose values are higher, and lower, than they were."""


@dataclass(frozen=True)
class MeasuredTraffic:
    """What the pool's last promoted study was measured on. promoted_at: when its rollout had ended."""

    study_id: int
    spec: StudyCreate
    promoted_at: datetime
    mix: TrafficMix


def mix_advice(measured: MeasuredTraffic, now: TrafficMix | None) -> MixAdvice:
    """`now`: of the newest requests of the span that is looked at."""
    told = {"study_id": measured.study_id, "promoted_at": measured.promoted_at}
    if now is None or min(len(now), len(measured.mix)) < FEWEST_VALUES:
        few = 0 if now is None else len(now)
        says = (
            f"Too few requests to compare with the traffic of study {measured.study_id}: {few} now and "
            f"{len(measured.mix)} then, after {LOOK_BACK} that begin each; at least {FEWEST_VALUES} are wanted."
        )
        return MixAdvice(state=MixState.TOO_LITTLE, says=says, **told)
    then_of, now_of = _values(measured.mix), _values(now)
    found = shifts(then_of, now_of)
    parts = [
        PartShift(
            part=MixPart(name),
            score=shift.score,
            low=shift.low,
            high=shift.high,
            drifted=shift.drifted,
            then=_typical(name, then_of[name]),
            now=_typical(name, now_of[name]),
        )
        for name, shift in found.items()
    ]
    parts.sort(key=lambda part: (not part.drifted, -abs(part.score)))
    drifted = [part for part in parts if part.drifted]
    if not drifted:
        says = f"The traffic is still much as study {measured.study_id} was measured on."
        return MixAdvice(state=MixState.ALIKE, parts=parts, says=says, **told)
    how = ", ".join(WORDS[part.part][part.score < 0] for part in drifted)
    says = f"The traffic has drifted from what study {measured.study_id} was measured on: {how}. Tune the pool again."
    address = _address(measured.spec, f"the traffic has drifted since study {measured.study_id}: {how}")
    return MixAdvice(state=MixState.DRIFTED, parts=parts, says=says, study=address, **told)


def _values(mix: TrafficMix) -> Mapping[str, Sequence[float]]:
    return {
        MixPart.PROMPTS.value: mix.prompts,
        MixPart.ANSWERS.value: mix.answers,
        MixPart.PREFIXES.value: mix.repeated,
        MixPart.ARRIVALS.value: mix.gaps_s,
    }


def _typical(name: str, values: Sequence[float]) -> float:
    """The median of lengths; of shares and gaps the mean, which stays what it is where most are zero."""
    return median(values) if name in (MixPart.PROMPTS, MixPart.ANSWERS) else fmean(values)


def _address(spec: StudyCreate, reason: str) -> str:
    """The form of the same study, on what the pool serves now: what it replayed is what the pool does not serve any
    more. What is too long for an address is left out."""
    said = {"pool": spec.pool, "objective": spec.objective}
    if spec.objective not in OF_LIMITS:
        said["objective_q"] = f"p{100 * spec.objective_q:g}"
    if spec.constraints:
        limits = [f"{one.metric} p{100 * one.q:g} {1000 * one.limit_s:g}ms" for one in spec.constraints]
        said["constraints"] = "\n".join(limits)
    if spec.trial_requests != StudyCreate.model_fields["trial_requests"].default:
        said["trial_requests"] = str(spec.trial_requests)
    usual = StudyCreate.model_fields
    for name in SAME_AIM:
        if (value := getattr(spec, name)) != usual[name].default:
            said[name] = value if isinstance(value, str) else f"{value:.12g}"
    if spec.also:
        said["also"] = "\n".join(_objective(one) for one in spec.also)
    said |= {name: range_text(one) for name, one in spec.space.items() if name in KNOBS}
    declared = [f"{name} = {range_text(one)}" for name, one in spec.space.items() if name not in KNOBS]
    if declared:
        said["declared"] = "; ".join(declared)
    kept = {name: text for name, text in said.items() if len(text) <= LONGEST_WORD}
    return f"{STUDY}?{urlencode({**kept, 'reason': reason})}"


def _objective(one: Objective) -> str:
    return one.objective if one.objective in OF_LIMITS else f"{one.objective} p{100 * one.objective_q:g}"
