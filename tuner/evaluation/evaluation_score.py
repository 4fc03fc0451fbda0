"""What an evaluation command has said, read and compared. Pure.

Guarantee: a score is a finite number; a winner is no worse only where the drop's upper bound is within the margin.
"""

from __future__ import annotations

import json
import math
from typing import Any

from controlplane.contract.bodies.studies import Evaluation, EvaluationScore
from controlplane.contract.errors import BadRequest

SURE_Z = 1.645
"""Of the normal: the bound is missed in 5 % on its side."""


def score_of(said: str, took_s: float) -> EvaluationScore:
    """`said`: the end of its standard output, whose last line that is not empty is a number, or a JSON object with
    `score` and optionally `standard_error`. Raises BadRequest that says what it is instead."""
    last = next((line.strip() for line in reversed(said.splitlines()) if line.strip()), "")
    try:
        told = json.loads(last)
    except (ValueError, RecursionError):
        told = None
    own: dict[str, Any] = told if isinstance(told, dict) else {"score": told}
    score, error = _number(own.get("score")), own.get("standard_error")
    if score is None:
        raise BadRequest(f"its last line wants to be a number, or JSON with score, and is {last[:80]!r}")
    spread = _number(error)
    if error is not None and (spread is None or spread < 0):
        raise BadRequest(f"standard_error: wants a number from 0, got {str(error)[:40]!r}")
    return EvaluationScore(score=score, standard_error=spread, took_s=round(took_s, 3))


def compared(name: str, margin: float, default: EvaluationScore, winner: EvaluationScore) -> Evaluation:
    """The drop's bound takes the two scores for independent: of two runs over the same questions it is wider than need
    be. Without standard errors the drop is its own bound."""
    drop = default.score - winner.score
    error = math.hypot(default.standard_error or 0.0, winner.standard_error or 0.0)
    high = drop + SURE_Z * error
    # A score of three digits and a margin of two: what is exactly at the margin is within it.
    held = high <= margin or math.isclose(high, margin, abs_tol=1e-12)
    return Evaluation(name=name, margin=margin, default=default, winner=winner, drop=drop, drop_high=high, held=held)


def _number(value: Any) -> float | None:
    """None for what is no finite number."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        found = float(value)
    except OverflowError:  # A whole number of hundreds of digits.
        return None
    return found if math.isfinite(found) else None
