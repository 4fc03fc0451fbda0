"""What an evaluation command has said, and whether the winner is no worse."""

import pytest

from controlplane.contract.bodies.studies import EvaluationScore
from controlplane.contract.errors import BadRequest
from tuner.evaluation.evaluation_score import compared, score_of


def scored(score: float, error: float | None = None) -> EvaluationScore:
    return EvaluationScore(score=score, standard_error=error, took_s=1.0)


@pytest.mark.parametrize(
    ("said", "score", "error"),
    [
        ("0.5", 0.5, None),
        ("loading\n 61 \n\n", 61.0, None),
        ('{"score": 0.612, "standard_error": 0.004, "n": 1000}', 0.612, 0.004),
        ('done\n{"score": -2}\n', -2.0, None),
    ],
)
def test_the_last_line_is_the_score(said: str, score: float, error: float | None) -> None:
    assert score_of(said, 1.5) == EvaluationScore(score=score, standard_error=error, took_s=1.5)


@pytest.mark.parametrize(
    "said",
    [
        "",
        "done",
        "9" * 400,
        "[" * 5000,
        "NaN",
        "Infinity",
        "true",
        '{"score": "a"}',
        "[1]",
        '{"score": NaN}',
        '{"result": 1}',
    ],
)
def test_what_is_no_score_is_told(said: str) -> None:
    with pytest.raises(BadRequest, match="last line wants to be a number"):
        score_of(said, 1.0)


@pytest.mark.parametrize("error", ["-1", '"a"', "NaN"])
def test_a_standard_error_is_a_number_from_zero(error: str) -> None:
    with pytest.raises(BadRequest, match="standard_error"):
        score_of(f'{{"score": 1, "standard_error": {error}}}', 1.0)


@pytest.mark.parametrize(
    ("default", "winner", "held"),
    [
        (scored(0.62), scored(0.61), True),
        (scored(0.62), scored(0.6099), False),
        (scored(0.62), scored(0.7), True),
        (scored(0.62, 0.004), scored(0.62, 0.004), True),
        (scored(0.62, 0.005), scored(0.62, 0.005), False),
        (scored(0.62), scored(0.62, 0.007), False),
    ],
)
def test_the_drops_bound_is_held_to_the_margin(default: EvaluationScore, winner: EvaluationScore, held: bool) -> None:
    found = compared("mmlu", 0.01, default, winner)
    assert found.held is held and found.drop == pytest.approx(default.score - winner.score)
    assert found.drop is not None and found.drop_high is not None and found.drop_high >= found.drop
