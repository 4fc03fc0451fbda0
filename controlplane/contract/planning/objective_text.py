"""A study's objectives as people read them: the same words on a page, in a terminal and in a verdict. Pure.

All are kept as seconds, less is better; what people read as so many a second is told so.
"""

import math
import re
from collections.abc import Iterable

from controlplane.contract.bodies.knob_schema import COST, GOODPUT, GOODPUT_TOKENS, MAX_LOAD, OF_LOADS, RATES
from controlplane.contract.bodies.studies import (
    AIMS,
    AlsoFound,
    FrontMember,
    Objective,
    Study,
    StudyCreate,
    StudyVerdict,
)
from controlplane.contract.duration_text import duration_text
from controlplane.contract.planning.measurement import TOKENS_COSTED, Carries
from controlplane.contract.share_text import share_text

CALLED = {
    GOODPUT: "goodput",
    GOODPUT_TOKENS: "goodput in tokens",
    MAX_LOAD: "the largest load",
    COST: "cost",
}
_SENTENCE_ENDS = re.compile(r"[.;](?:\s|$)")
UNITS = {
    GOODPUT: "good requests/s",
    GOODPUT_TOKENS: "good tokens/s",
    MAX_LOAD: "requests/s a node",
    COST: f"a node for {TOKENS_COSTED:,} tokens",
}


def called(objective: Objective) -> str:
    """ "ttft p95", "goodput"."""
    return CALLED.get(objective.objective, objective.aim)


def value_text(objective: Objective, value_s: float | None) -> str:
    """ "420 ms", "12.5 good requests/s", "4.20 s a node for 1,000 tokens"; an en dash for absent."""
    if value_s is None:
        return "–"
    if objective.objective not in AIMS:
        return duration_text(value_s)
    told = duration_text(value_s) if objective.objective == COST else f"{1.0 / value_s:.3g}"
    return f"{told} {UNITS[objective.objective]}"


def front_text(objective: Objective, member: FrontMember) -> str:
    """ "420 ms (380 ms to 465 ms)", "12.5 good requests/s (11.2 to 13.9)"."""
    found = member.values[objective.name]
    ends = [found.low_s, found.high_s]
    if objective.objective in RATES:
        told = [f"{1.0 / value:.3g}" for value in reversed(ends)]
    else:
        told = [duration_text(value) for value in ends]
    return f"{value_text(objective, found.value_s)} ({' to '.join(told)})"


def change_text(objective: Objective, improvement: float) -> str:
    """ "ttft p95 falls by 12.0 %", "goodput rises by 4.2 %". `improvement`: 1 - new / old of its seconds."""
    change = _change(objective, improvement)
    return f"{called(objective)} {'falls' if change < 0 else 'rises'} by {share_text(abs(change), 1)}"


def change_ends(objective: Objective, improvement: float, interval: Iterable[float]) -> list[float]:
    """The ends of the improvement's interval as shares of what `change_text` tells, the lower first: below 0 is the
    other way."""
    way = -1 if _change(objective, improvement) < 0 else 1
    return sorted(_change(objective, one) * way for one in interval)


def carries_nothing(spec: StudyCreate, winner: Carries | None, default: Carries | None) -> bool:
    """Whether loads are compared, and neither carries the least that was tried: that they are equal says nothing."""
    compared = None not in (winner, default) and spec.objective in OF_LOADS
    return compared and not any(one.load for one in (winner, default) if one is not None)


def also_text(found: AlsoFound) -> str:
    """`change_text`, and how much worse it may be where that is not held."""
    told = change_text(found, found.improvement)
    if found.held:
        return told
    if found.worse_at_most is None:
        return f"{told} (by how much it may be worse a single pair does not say)"
    return f"{told} (it may be worse by {share_text(found.worse_at_most, 1)})"


def result_in_short(study: Study) -> str:
    """A study's outcome: "ttft p95 falls by 12.0 % (8.1 % to 15.5 %)", "not better: e2e p95 rises by 0.4 % (-2.1 % to
    2.9 %)"; without such figures the first sentence of what there is."""
    result = study.result
    if result is None:
        return first_sentence(study.error or study.progress)
    if result.improvement is None or not result.repeats:
        return first_sentence(result.summary)
    objective = study.spec.objectives[0]
    if carries_nothing(study.spec, result.winner_carries, result.default_carries):
        return first_sentence(result.summary)
    told = change_text(objective, result.improvement)
    if result.interval is not None:
        ends = change_ends(objective, result.improvement, result.interval)
        told += f" ({' to '.join(share_text(one, 1) for one in ends)})"
    return told if result.verdict is StudyVerdict.BETTER else f"not better: {told}"


def first_sentence(text: str) -> str:
    """Up to where it ends, or goes on after a semicolon."""
    return _SENTENCE_ENDS.split(text, maxsplit=1)[0]


def _change(objective: Objective, improvement: float) -> float:
    """Of what people read: below 0 where that falls."""
    return more_a_second(improvement) if objective.objective in RATES else -improvement


def more_a_second(less_time: float) -> float:
    """By how much a rate rises where the time per piece falls by so much."""
    return math.inf if less_time >= 1.0 else less_time / (1.0 - less_time)
