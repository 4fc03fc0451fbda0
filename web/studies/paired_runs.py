"""What a study's fresh runs argue, as ratios of the winner to the default: of all pairs together, and of each. Pure.

Guarantee: a ratio is of two runs that replayed the same requests; one whose partner failed is none.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from controlplane.contract.bodies.studies import FINALIST, MEASURED, StudyResult, Trial
from web.drawing.verdict_bar import Judged, VerdictBar, shared_reach, verdict_bar
from web.frame.format import percent

SAME = 0.005
"""Of the ratio: what is called the same."""


@dataclass(frozen=True)
class PairRow:
    """Seconds are of the objective. `bar`: on the scale of all pairs."""

    number: int
    default_s: float
    other_s: float
    says: str
    bar: VerdictBar


def overall(result: StudyResult | None, objective: str) -> VerdictBar | None:
    """The winner beside the default with its interval; None where nothing was measured again."""
    if result is None or result.improvement is None or result.interval is None or not result.repeats:
        return None
    low, high = result.interval
    ratio = max(1.0 - result.improvement, 1e-3)
    ends = min(max(1.0 - high, 0.0), ratio), max(1.0 - low, ratio)
    return verdict_bar(Judged(ratio, *ends, 1.0, result.verdict.value), objective)


def pair_rows(trials: Sequence[Trial], winner: Mapping[str, Any] | None = None) -> list[PairRow]:
    """Each pair of this configuration and the default in its order; without one, of the one that met it last."""
    arms: dict[int, dict[str, Trial]] = {}
    for trial in trials:
        order = trial.order
        if trial.kind == FINALIST and trial.state in MEASURED and order.pair is not None and trial.objective_s:
            arms.setdefault(order.pair, {})[order.arm] = trial
    both = [pair for _, pair in sorted(arms.items()) if len(pair) > 1]
    of = winner or (both[-1]["winner"].knobs if both else None)
    seconds = [
        (pair["default"].objective_s or 0.0, pair["winner"].objective_s or 0.0)
        for pair in both
        if pair["winner"].knobs == of
    ]
    whole = dict(enumerate(seconds))
    found = {
        pair: Judged(other / own, other / own, other / own, 1.0, _word(other / own))
        for pair, (own, other) in whole.items()
    }
    reach = shared_reach(list(found.values()))
    return [
        PairRow(pair + 1, *whole[pair], f"{_word(one.ratio)}{_by(one.ratio)}", verdict_bar(one, "the pair", reach))
        for pair, one in found.items()
    ]


def pairs_sentence(rows: Sequence[PairRow]) -> str:
    """Such as "7 of 9 pairs were faster, the middle one by 12 %"; empty of no pair."""
    if not rows:
        return ""
    ratios = sorted(row.other_s / row.default_s for row in rows)
    faster = sum(ratio < 1.0 for ratio in ratios)
    middle = (
        ratios[len(ratios) // 2]
        if len(ratios) % 2
        else (ratios[len(ratios) // 2 - 1] * ratios[len(ratios) // 2]) ** 0.5
    )
    how = (
        "took the same"
        if abs(middle - 1) < SAME
        else f"was {percent(abs(1 - middle))} {'faster' if middle < 1 else 'slower'}"
    )
    return f"{faster} of {len(rows)} pairs were faster; the middle one {how}."


def _word(ratio: float) -> str:
    return "the same" if abs(ratio - 1) < SAME else "faster" if ratio < 1 else "slower"


def _by(ratio: float) -> str:
    return "" if abs(ratio - 1) < SAME else f" by {percent(abs(1 - ratio))}"
