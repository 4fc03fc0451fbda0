"""A configuration's quality in words."""

from typing import Any

import pytest

from controlplane.contract.bodies.studies import Evaluation, EvaluationScore
from controlplane.contract.planning.quality_text import evaluation_text, quality_text, score_text

NAMES = ("top1_agreement", "top1_agreement_low", "logprob_drop", "logprob_drop_high")


@pytest.mark.parametrize(
    ("figures", "words"),
    [
        ((), ""),
        ((0.957,), "95.7 % of next tokens are those of the unquantized model"),
        (
            (0.957, 0.921, 0.0104, 0.0152),
            "95.7 % of next tokens are those of the unquantized model (92.1 % at least), and held-out text is 0.010 "
            "nats a token less likely (0.015 at most)",
        ),
    ],
)
def test_what_was_asked_is_told_with_its_bounds(figures: tuple[float, ...], words: str) -> None:
    assert quality_text(dict(zip(NAMES, figures, strict=False))) == words


@pytest.mark.parametrize(
    ("told", "words"),
    [
        ({"drop_high": -0.02}, "evaluation mmlu scores 0.612, the default 0.6"),
        ({"drop_high": 0.004}, "evaluation mmlu scores 0.612, the default 0.6: 0.004 less, of 0.01 permitted"),
        ({"winner": None, "error": "of the winner: none"}, "evaluation mmlu has no score: of the winner: none"),
    ],
)
def test_an_evaluation_is_told_by_its_bound(told: dict[str, Any], words: str) -> None:
    scores = {"default": EvaluationScore(score=0.6, took_s=1), "winner": EvaluationScore(score=0.612, took_s=1)}
    assert evaluation_text(Evaluation.model_validate({"name": "mmlu", "margin": 0.01, **scores, **told})) == words


def test_a_score_is_told_with_its_standard_error() -> None:
    unsure = EvaluationScore(score=0.61234, standard_error=0.00412, took_s=1)
    assert score_text(unsure) == "0.6123 ± 0.0041"
    own = Evaluation(name="a", margin=0.01, default=unsure, winner=unsure, drop=0.0, drop_high=0.0096)
    assert evaluation_text(own).endswith("the default 0.6123 ± 0.0041: up to 0.0096 less, of 0.01 permitted")
