"""A study's limits, and whether the winner held them in its fresh runs. Pure.

Guarantee: what is said to be held or broken is what the worker reported of each run; nothing is judged anew. Of all
runs together the study's own verdict speaks.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from controlplane.contract.bodies.studies import (
    FINALIST,
    MEASURED,
    Evaluation,
    StudyCreate,
    StudyResult,
    Trial,
)
from controlplane.contract.on_call.metric_text import metric_name
from controlplane.contract.planning.quality_text import AGREEMENT, DROP, score_text
from web.frame.format import percent, seconds
from web.frame.states import Kind

LOST = "errors"
"""How trials name the limit that every study has."""


@dataclass(frozen=True)
class LimitHeld:
    """One limit. `runs`: the winner's that were judged by it; `typical`, `worst`: of these."""

    name: str
    limit: str
    default: str
    typical: str
    worst: str
    held: int
    runs: int

    @property
    def kind(self) -> Kind:
        if not self.runs:
            return Kind.UNKNOWN
        return Kind.GOOD if self.held == self.runs else Kind.WARN if self.held else Kind.BAD

    @property
    def says(self) -> str:
        return f"held in {self.held} of {self.runs} runs" if self.runs else "not measured"


Read = Callable[[Trial], float | None]


def limits_held(spec: StudyCreate, result: StudyResult | None, trials: Sequence[Trial]) -> list[LimitHeld]:
    """Each limit that was asked for, then the share of lost requests, those of a lossy format where it was measured,
    and the study's own evaluation. Without a winner's fresh runs: of none."""
    fresh = [trial for trial in trials if trial.kind == FINALIST and trial.state in MEASURED]
    paired = [trial for trial in fresh if trial.order.pair is not None] or fresh
    winner = result.winner if result is not None and result.repeats else None
    own = [trial for trial in paired if winner is not None and trial.knobs == winner]
    default = [trial for trial in paired if result is not None and trial.knobs == result.default]
    found = []
    for limit in spec.held:
        key = f"{limit.metric}:{limit.q:g}"
        name = f"{metric_name(limit.metric)} p{100 * limit.q:g}"
        found.append(_held(name, key, f"≤ {seconds(limit.limit_s)}", seconds, _quantile(key), default, own))
    lost = f"≤ {percent(spec.max_lost_share, 1)}"
    found.append(_held("Requests lost", LOST, lost, _tenths, _lost_share, default, own))
    gated = [trial for trial in trials if winner is not None and trial.knobs == winner and AGREEMENT in trial.quality]
    if gated:
        least = f"≥ {percent(spec.least_agreement, 1)}"
        of = _held(
            "Next tokens as unquantized", AGREEMENT, least, _tenths, _quality(AGREEMENT), default, gated, worst=min
        )
        found.append(of)
    sure = [trial for trial in gated if DROP in trial.quality]
    if sure:
        most = f"≤ {_nats(spec.most_logprob_drop)}"
        found.append(_held("Held-out text less likely, a token", DROP, most, _nats, _quality(DROP), default, sure))
    if result is not None and result.evaluation is not None:
        found.append(_evaluated(result.evaluation))
    return found


def _evaluated(own: Evaluation) -> LimitHeld:
    """By the bound, where there are scores."""
    of_default, of_winner = (score_text(score) if score else "–" for score in (own.default, own.winner))
    runs = int(own.winner is not None and own.default is not None)
    limit = f"default − {own.margin:g}"
    return LimitHeld(f"Evaluation {own.name}", f"≥ {limit}", of_default, of_winner, of_winner, int(own.held), runs)


def _nats(value: float | None) -> str:
    return "–" if value is None else f"{value:.3g} nats"


def _quality(name: str) -> Read:
    return lambda trial: trial.quality.get(name)


def _held(
    name: str,
    key: str,
    limit: str,
    words: Callable[[float | None], str],
    read: Read,
    default: Sequence[Trial],
    own: Sequence[Trial],
    worst: Callable[..., float] = max,
) -> LimitHeld:
    judged = [trial.violations[key] <= 0 for trial in own if key in trial.violations]
    values = [value for value in map(read, own) if value is not None]
    return LimitHeld(
        name=name,
        limit=limit,
        default=words(_middle([value for value in map(read, default) if value is not None])),
        typical=words(_middle(values)),
        worst=words(worst(values) if values else None),
        held=sum(judged),
        runs=len(judged),
    )


def _tenths(share: float | None) -> str:
    return percent(share, 1)


def _middle(values: Sequence[float]) -> float | None:
    """The median; the upper of two middle ones."""
    return sorted(values)[len(values) // 2] if values else None


def _quantile(key: str) -> Read:
    return lambda trial: trial.measurement.quantiles.get(key) if trial.measurement else None


def _lost_share(trial: Trial) -> float | None:
    return trial.measurement.errors / max(1, trial.measurement.requests) if trial.measurement else None
