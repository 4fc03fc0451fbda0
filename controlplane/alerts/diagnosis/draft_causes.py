"""Drafts that give fewer of the tokens: whether they do, and to which group of requests alone (pure).

A delivery holds one token and those of its drafts that were accepted. So of a group's tokens drafts gave what its
deliveries leave of one, whoever proposed them: that is known by node, by tenant and by kind of prompt, where what is
proposed is known by node alone.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from controlplane.alerts.diagnosis.counted_ratio import NOT_MEASURED, Level, Ratio, compared, of_a_share
from controlplane.alerts.diagnosis.plausibility import PRIOR
from controlplane.alerts.diagnosis.ranking import MORE_WORK
from controlplane.alerts.diagnosis.shift_parts import EXPLAINS
from controlplane.contract.bodies.cause_kinds import CauseKind
from controlplane.contract.metrics import NODE
from controlplane.contract.share_text import share_text

ACCEPTANCE_DROP = 0.15
LEAST_TOKENS = 100
SIGMAS = 3.0
CHANCE = 0.00135
"""Of so many standard errors."""

Counts = NDArray[np.float64]


@dataclass(frozen=True)
class Deliveries:
    """Of one label's values: deliveries, and the tokens that they held; float64[values, windows] each, of which the
    first `usual` came before the onset."""

    label: str
    values: Sequence[str]
    count: Counts
    tokens: Counts
    usual: int


@dataclass(frozen=True)
class DraftGroup:
    """What drafts gave of one group's tokens, and of all others'; None where too little is known of that, or where they
    gave nothing before that could be told from chance: who had nothing has nothing to lose."""

    label: str
    value: str
    own: Level
    others: Level | None

    @property
    def sigmas(self) -> float:
        """By how many standard errors it lost a larger part than the others did."""
        if self.others is None:
            return 0.0
        error = math.hypot(*(one.error / (one.before or 1.0) for one in (self.own, self.others)))
        return (_lost(self.own) - _lost(self.others)) / error

    @property
    def is_apart(self) -> bool:
        """Whether it lost so much that a token takes more steps, and most of that alone; but for chance."""
        own, others = _lost(self.own), 0.0 if self.others is None else max(_lost(self.others), 0.0)
        return own - others >= EXPLAINS * own and steps_growth(self.own) >= MORE_WORK

    @property
    def is_shared(self) -> bool:
        """Whether the others lost as well, beyond chance."""
        others = self.others
        return others is not None and others.fell(0.0, SIGMAS) and _lost(others) >= (1.0 - EXPLAINS) * _lost(self.own)

    @property
    def words(self) -> str:
        of_others = "" if self.others is None else f", and {_during(self.others)} of the others'"
        of_own = f"{_during(self.own)} of its tokens, {_before(self.own)} before"
        return f"drafts gave {self.label} {self.value} {of_own}{of_others}"


@dataclass(frozen=True)
class Drafts:
    """accepted: of the draft tokens proposed; given: of the tokens of answers, those that drafts gave; groups: the same
    of each that is known of; gap_growth: by what factor deliveries of the one that stands out came farther apart."""

    accepted: Level = NOT_MEASURED
    given: Level = NOT_MEASURED
    groups: Sequence[DraftGroup] = ()
    gap_growth: float = 1.0

    @property
    def apart(self) -> DraftGroup | None:
        """The group that stands out most; None: none does, beyond what so many do by chance."""
        sigmas = NormalDist().inv_cdf(1.0 - CHANCE / max(len(self.groups), 1))
        among = (one for one in self.groups if one.is_apart and one.sigmas >= sigmas)
        return max(among, key=lambda one: one.sigmas, default=None)

    def is_shared(self, label: str, value: str) -> bool:
        """Whether this group's loss is the others', too."""
        return any((one.label, one.value) == (label, value) and one.is_shared for one in self.groups)


NO_DRAFTS = Drafts()


def draft_causes(drafts: Drafts, *, has_room: bool) -> list[dict[str, Any]]:
    """Fewer of the drafts are accepted, or drafts give so few of the tokens that an answer takes more steps, everywhere
    or to one group. has_room: nothing is known that takes drafts their room in a step, which more work or another limit
    does. A group that takes longer for longer steps rather than for more of them is told by that: where steps are full
    drafts have less room, too."""
    accepted, given, apart = drafts.accepted, drafts.given, drafts.apart
    is_less = accepted.fell(ACCEPTANCE_DROP, SIGMAS)
    least = 0.0 if given.before is None else (MORE_WORK - 1.0) * (1.0 - given.before)
    gives_less = has_room and given.fell(least, SIGMAS)
    steps = [steps_growth(given), 1.0 if apart is None else steps_growth(apart.own)]
    if not is_less and not gives_less and not (has_room and apart is not None and steps[1] >= drafts.gap_growth):
        return []
    words = []
    if gives_less:
        words.append(f"drafts gave {_during(given)} of the tokens, {_before(given)} before")
    if apart is not None:
        words.append(apart.words)
    if accepted.before is not None and accepted.during is not None:
        words.append(f"of the draft tokens {_during(accepted)} were accepted, {_before(accepted)} before")
    told = {"node": apart.value} if apart is not None and apart.label == NODE.label else {}
    return [
        {
            "cause": CauseKind.ACCEPTANCE.value,
            "score": PRIOR[CauseKind.ACCEPTANCE],
            "message": "; ".join(words),
            "acceptance": [accepted.before, accepted.during],
            "from_drafts": [given.before, given.during],
            "steps_growth": round(max(steps), 3),
            **told,
        }
    ]


def steps_growth(given: Level) -> float:
    """Times as many steps for a token as before, as drafts give fewer of them; 1 where that is not known."""
    then, now = given.before, given.during
    return 1.0 if then is None or now is None or then >= 1.0 else (1.0 - now) / (1.0 - then)


def draft_groups(found: Deliveries) -> list[DraftGroup]:
    """Those of which enough is known."""
    told = []
    count, tokens = found.count.sum(axis=0), found.tokens.sum(axis=0)
    for place, value in enumerate(found.values):
        own = _given(found.count[place], found.tokens[place], found.usual)
        if own is not None and value:
            others = _given(count - found.count[place], tokens - found.tokens[place], found.usual)
            told.append(DraftGroup(found.label, value, own, others))
    return told


def _before(level: Level) -> str:
    return share_text(level.before or 0.0)


def _during(level: Level) -> str:
    return share_text(level.during or 0.0)


def _given(count: Counts, tokens: Counts, usual: int) -> Level | None:
    before, during = (Ratio(count[part], tokens[part], LEAST_TOKENS) for part in (slice(usual), slice(usual, None)))
    steps = compared(before, during, of_a_share)
    if steps.before is None or steps.during is None:
        return None
    given = Level(1.0 - steps.before, 1.0 - steps.during, steps.error)
    return given if steps.error > 0.0 and 1.0 - steps.before >= SIGMAS * steps.error else None


def _lost(given: Level) -> float:
    """The part of what drafts gave."""
    assert given.before is not None and given.during is not None
    return 1.0 - given.during / given.before
