"""What is known of a configuration's quality, in words: a result's sentence, a page and a report say it alike."""

from collections.abc import Mapping

from controlplane.contract.bodies.studies import Evaluation, EvaluationScore
from controlplane.contract.share_text import share_text

AGREEMENT, DROP = "top1_agreement", "logprob_drop"
"""Measures of `TrialReport.quality`; with `_low` and `_high` their bounds."""


def quality_text(quality: Mapping[str, float]) -> str:
    """ "96.2 % of next tokens are those of the unquantized model (94.1 % at least), and held-out text is 0.010 nats a
    token less likely (0.017 at most)"; empty where nothing was asked."""
    told = []
    if AGREEMENT in quality:
        least = quality.get(f"{AGREEMENT}_low")
        bound = "" if least is None else f" ({share_text(least, 1)} at least)"
        told.append(f"{share_text(quality[AGREEMENT], 1)} of next tokens are those of the unquantized model{bound}")
    if DROP in quality:
        drop, most = quality[DROP], quality.get(f"{DROP}_high")
        bound = "" if most is None else f" ({most:.3f} at most)"
        told.append(f"held-out text is {drop:.3f} nats a token less likely{bound}")
    return ", and ".join(told)


def evaluation_text(own: Evaluation) -> str:
    """ "evaluation mmlu scores 0.612 ± 0.004, the default 0.615 ± 0.004: up to 0.0123 less, of 0.01 permitted"."""
    if own.winner is None or own.default is None or own.drop_high is None:
        return f"evaluation {own.name} has no score: {own.error}"
    scores = f"evaluation {own.name} scores {score_text(own.winner)}, the default {score_text(own.default)}"
    if own.drop_high <= 0:
        return scores
    exact = own.default.standard_error is None and own.winner.standard_error is None
    return f"{scores}: {'' if exact else 'up to '}{own.drop_high:.3g} less, of {own.margin:g} permitted"


def score_text(score: EvaluationScore) -> str:
    error = "" if score.standard_error is None else f" ± {score.standard_error:.2g}"
    return f"{score.score:.4g}{error}"
