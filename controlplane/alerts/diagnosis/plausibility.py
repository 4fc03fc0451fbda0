"""How plausible each kind of cause is where its evidence is found: learned from causes that people confirmed (pure).

Each kind has a Beta distribution of how often it is right when it is named. It begins as one of `STRENGTH` causes that
were looked into, of which `PRIOR` were right. Where an incident's cause is confirmed, that kind was right if it was
named, and those that were named before it were wrong; what was named after it was not looked into.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from controlplane.contract.bodies.cause_kinds import CauseKind

STRENGTH = 20.0
PRIOR: Mapping[str, float] = {
    CauseKind.CONFIG_CHANGE.value: 0.95,
    CauseKind.HOST.value: 0.92,
    CauseKind.LOAD.value: 0.9,
    CauseKind.TENANT_MIX.value: 0.82,
    CauseKind.PROMPT_MIX.value: 0.8,
    CauseKind.ANSWER_MIX.value: 0.8,
    CauseKind.CACHE_MISS.value: 0.8,
    CauseKind.ACCEPTANCE.value: 0.78,
    CauseKind.PREEMPTION.value: 0.75,
    CauseKind.ONE_NODE.value: 0.7,
    CauseKind.CHANGE_EVENT.value: 0.7,
    CauseKind.ONE_GROUP.value: 0.65,
    CauseKind.KV_PRESSURE.value: 0.5,
}
"""Where nobody has confirmed a cause yet. What is an act, or measured at the fault itself, goes before what tells only
where it is. Of outages 70 % are due to changes (Site Reliability Engineering, chapter 1)."""


@dataclass(frozen=True)
class Confirmed:
    """What people found out of one incident. named: the kinds that were named then, the likeliest first."""

    cause: str
    named: Sequence[str]


def learned(confirmed: Iterable[Confirmed]) -> dict[str, float]:
    """The mean of each kind's Beta distribution. Unknown kinds are passed over: the list may be of an older version."""
    right = {kind: STRENGTH * mean for kind, mean in PRIOR.items()}
    wrong = {kind: STRENGTH * (1.0 - mean) for kind, mean in PRIOR.items()}
    for one in confirmed:
        for kind in dict.fromkeys(one.named):
            if kind == one.cause:
                if kind in right:
                    right[kind] += 1.0
                break
            if kind in wrong:
                wrong[kind] += 1.0
    return {kind: right[kind] / (right[kind] + wrong[kind]) for kind in PRIOR}
