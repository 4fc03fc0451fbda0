"""A rollout at a glance: whom it can hurt, what the evidence says, and what happens next, in sentences. Pure.

What it changes, the fourth question, is answered in rows (`change_rows`).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from controlplane.contract.bodies.rollouts import ENDED, NOT_BEGUN, Rollout, RolloutPhase
from controlplane.contract.changes.blast_radius import BlastRadius
from web.frame.format import seconds
from web.frame.states import Kind
from web.rollouts.evidence_rows import Row
from web.rollouts.judgements import Judgement

MOST_NAMED = 8
_WENT_BACK = frozenset({RolloutPhase.ROLLED_BACK, RolloutPhase.ROLLING_BACK})


@dataclass(frozen=True)
class Finding:
    """What the newest judging says in a word of a kind; `says`: why, in sentences."""

    kind: Kind
    word: str
    says: list[str]


@dataclass(frozen=True)
class Next:
    """What comes, and how long it can take. `place`: which wave of how many."""

    words: str
    left: str
    until: datetime | None
    place: str


def hurts(rollout: Rollout, radius: BlastRadius | None) -> list[str]:
    """Whom it can hurt; under way whom it has reached first, and of what has ended that alone."""
    said = list(_reached(rollout))
    if rollout.phase not in ENDED:
        said += [] if radius is None else radius.says
    return said


def finding(rollout: Rollout, found: Sequence[Judgement]) -> Finding:
    """The newest judging that came to a verdict, else the newest: by that line of it which has most evidence of harm.
    What was judged after it is told in a word each."""
    if rollout.spec.emergency:
        return Finding(Kind.WARN, "unjudged", ["An emergency change is not judged: nothing is compared."])
    if not found:
        why = "Nothing was judged." if rollout.ended_at else "Nothing is judged yet."
        return Finding(Kind.UNKNOWN, "no evidence", [why])
    last = found[-1]
    told = next((one for one in reversed(found) if one.verdict is not None), last)
    worst = worst_row(told.rows.judged)
    says = [f"{told.title}, judged for {seconds(told.judged_s)}:" + (f" {_line(worst)}" if worst else " no line yet.")]
    says += [f"{one.title}: {one.word}. {one.because}".strip() for one in found[found.index(told) + 1 :]]
    if not last.over and last.needed_s is not None:
        enough = "Enough is known to show an equal one not worse."
        says.append(enough if last.needed_s <= 0 else f"About {seconds(last.needed_s)} more would decide an equal one.")
    return Finding(told.kind, told.word, says)


def _line(row: Row) -> str:
    return f"{row.name} {row.word}, {row.says}."


def worst_row(rows: Sequence[Row]) -> Row | None:
    """What leans most to harm; the first of equal ones, of those with a ratio where there is any."""
    bad = [row for row in rows if row.kind is Kind.BAD]
    told = bad or [row for row in rows if row.bar is not None] or list(rows)
    return max(told, key=lambda row: row.harm or 0.0, default=None)


def comes_next(rollout: Rollout, now: datetime) -> Next:
    place = ""
    if rollout.waves and rollout.phase not in ENDED:
        told = sum(len(rollout.told_nodes) >= wave.nodes for wave in rollout.waves)
        place = f"Wave {told} of {len(rollout.waves)}" if told else ""
    until = rollout.until if rollout.ended_at is None else None
    return Next(rollout.next or _nothing_more(rollout), "" if until is None else left_words(until, now), until, place)


def _nothing_more(rollout: Rollout) -> str:
    """Of what has ended: what its pool runs, and what can still be done."""
    match rollout.phase:
        case RolloutPhase.PROMOTED:
            back = "; revert takes it back, judged on the way" if rollout.previous_revision is not None else ""
            return f"nothing: the pool runs revision {rollout.spec.revision}{back}"
        case RolloutPhase.ROLLED_BACK:
            runs = (
                "what it ran before" if rollout.previous_revision is None else f"revision {rollout.previous_revision}"
            )
            return f"nothing: the pool runs {runs}; trying again makes another rollout of the same"
        case RolloutPhase.FAILED | RolloutPhase.CANCELLED:
            return "nothing; trying again makes another rollout of the same"
        case _:
            return ""


def left_words(until: datetime, now: datetime) -> str:
    """Such as "at most 4 min left"."""
    left_s = (until - now).total_seconds()
    if left_s <= 0:
        return "its time is over: about to move"
    for unit, size in (("d", 86_400.0), ("h", 3600.0), ("min", 60.0)):
        if left_s >= 2 * size:
            return f"at most {left_s / size:.0f} {unit} left"
    return f"at most {left_s:.0f} s left"


def _reached(rollout: Rollout) -> Iterator[str]:
    told = rollout.told_nodes
    if rollout.phase in NOT_BEGUN | {RolloutPhase.VALIDATING}:
        return
    if not told:
        yield "no node was told"
        return
    of = f" of {rollout.waves[-1].of}" if rollout.waves else ""
    names = ", ".join(told[:MOST_NAMED]) + (f" and {len(told) - MOST_NAMED} more" if len(told) > MOST_NAMED else "")
    back = ", and taken back" if rollout.phase in _WENT_BACK else ""
    nodes = "node was" if len(told) == 1 and not of else "nodes was" if len(told) == 1 else "nodes were"
    yield f"{len(told)}{of} {nodes} told{back}: {names}"
