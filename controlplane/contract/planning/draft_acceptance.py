"""Whether a study's replays accept as many draft tokens as production does. Pure.

How many are accepted hangs on the text. Draft tokens of one answer stand or fall together, so their count overstates
what is known: the error is that of a ratio over windows of production (Cochran, Sampling Techniques, 6.4), never below
the binomial one; a replay's is taken to be as much above its binomial one as production's.
"""

import math
from collections.abc import Sequence

from pydantic import BaseModel, Field

from controlplane.contract.share_text import share_text

LEAST_DRAFTED = 100
"""Draft tokens; of fewer nothing is said."""
SURE = 1.96
"""Standard errors of a difference."""


class DraftCounts(BaseModel):
    """Draft tokens, and what is known by them."""

    drafted: int = Field(description="draft tokens proposed")
    accepted: int = Field(description="those of them that were accepted")
    share: float = Field(description="accepted / drafted")
    error: float = Field(description="the share's standard error")


class DraftAcceptance(BaseModel):
    """Acceptance in production, and in the replays that drafted as the default does."""

    production: DraftCounts = Field(description="as the pool's telemetry told when the study was planned")
    replayed: DraftCounts = Field(description="of a run of the study, on average")
    differs: bool = Field(
        description="whether they differ by more than their errors (95 %): the replayed text is not like the pool's"
    )


def counts_in_production(windows: Sequence[tuple[float, float]]) -> DraftCounts | None:
    """windows: draft tokens proposed and accepted in each. None of too few."""
    told = [(drafted, accepted) for drafted, accepted in windows if drafted > 0]
    drafted, accepted = sum(one for one, _ in told), sum(one for _, one in told)
    if drafted < LEAST_DRAFTED:
        return None
    share, variance = accepted / drafted, _binomial(drafted, accepted)
    if len(told) > 1:
        squares = math.fsum((one_accepted - share * one_drafted) ** 2 for one_drafted, one_accepted in told)
        variance = max(variance, squares * len(told) / (len(told) - 1) / drafted**2)
    return _counts(drafted, accepted, variance)


def compared(production: DraftCounts, runs: Sequence[tuple[int, int]]) -> DraftAcceptance | None:
    """runs: draft tokens proposed and accepted in each; they replay the same text, so that all together know no more
    than one. None of too few."""
    told = [(drafted, accepted) for drafted, accepted in runs if drafted]
    if not told:
        return None
    drafted, accepted = (math.fsum(one) / len(told) for one in zip(*told, strict=True))
    if drafted < LEAST_DRAFTED:
        return None
    above = production.error**2 / _binomial(production.drafted, production.accepted)
    replayed = _counts(drafted, accepted, above * _binomial(drafted, accepted))
    apart = abs(replayed.share - production.share)
    return DraftAcceptance(
        production=production,
        replayed=replayed,
        differs=apart > SURE * math.hypot(production.error, replayed.error),
    )


def counts_text(counts: DraftCounts) -> str:
    """ "46.0 % ± 2.1 %", the share with its 95 % interval."""
    return f"{share_text(counts.share, 1)} ± {share_text(SURE * counts.error, 1)}"


def acceptance_text(found: DraftAcceptance) -> str:
    """ "46.0 % ± 2.1 % of draft tokens in replays, 71.2 % ± 0.8 % in production", and the warning where they differ."""
    told = f"{counts_text(found.replayed)} of draft tokens in replays, {counts_text(found.production)} in production"
    if found.differs:
        told += (
            ": more apart than chance explains. The replayed text is not like the pool's, and what drafts gain may "
            "differ there; replay prompts of the pool's own"
        )
    return told


def _counts(drafted: float, accepted: float, variance: float) -> DraftCounts:
    return DraftCounts(
        drafted=round(drafted),
        accepted=round(accepted),
        share=round(accepted / drafted, 6),
        error=round(math.sqrt(variance), 6),
    )


def _binomial(drafted: float, accepted: float) -> float:
    """Variance of the share, with a token each way so that none is known for certain."""
    share = (accepted + 1) / (drafted + 2)
    return share * (1 - share) / drafted
