"""Objectives as people read them: times as times, rates as rates."""

import pytest

from controlplane.contract.bodies.studies import AlsoFound, FrontMember, FrontValue, Objective
from controlplane.contract.planning.objective_text import also_text, change_text, front_text, value_text


@pytest.mark.parametrize(
    ("objective", "value_s", "words", "change"),
    [
        ("ttft", 0.42, "420 ms", "ttft p95 falls by 20.0 %"),
        ("goodput", 0.08, "12.5 good requests/s", "goodput rises by 25.0 %"),
        ("goodput_tokens", 0.002, "500 good tokens/s", "goodput in tokens rises by 25.0 %"),
        ("max_load", 0.25, "4 requests/s a node", "the largest load rises by 25.0 %"),
        ("cost", 4.2, "4.20 s a node for 1,000 tokens", "cost falls by 20.0 %"),
        ("e2e", None, "–", "e2e p95 falls by 20.0 %"),
    ],
)
def test_each_is_told_as_people_read_it(objective: str, value_s: float | None, words: str, change: str) -> None:
    told = Objective(objective=objective)
    assert value_text(told, value_s) == words
    assert change_text(told, 0.2) == change


def test_what_becomes_worse_is_told_as_that() -> None:
    assert change_text(Objective(objective="tpot", objective_q=0.5), -0.1) == "tpot p50 rises by 10.0 %"
    assert change_text(Objective(objective="goodput"), -0.25) == "goodput falls by 20.0 %"
    figures = {"default_s": 0.1, "winner_s": 0.11, "improvement": -0.1, "interval": (-0.2, 0.0)}
    found = AlsoFound(objective="tpot", objective_q=0.5, **figures, worse_at_most=0.18, held=False)
    assert also_text(found) == "tpot p50 rises by 10.0 % (it may be worse by 18.0 %)"
    alone = found.model_copy(update={"worse_at_most": None})
    assert also_text(alone) == "tpot p50 rises by 10.0 % (by how much it may be worse a single pair does not say)"
    assert also_text(found.model_copy(update={"held": True})) == "tpot p50 rises by 10.0 %"


def test_an_interval_of_a_rate_has_its_lower_end_first() -> None:
    values = {
        "goodput": FrontValue(value_s=0.1, low_s=0.08, high_s=0.125),
        "e2e:0.95": FrontValue(value_s=0.5, low_s=0.4, high_s=0.6),
    }
    member = FrontMember(number=3, runs=1, knobs={}, values=values, keeps_limits=0.9)
    assert front_text(Objective(objective="goodput"), member) == "10 good requests/s (8 to 12.5)"
    assert front_text(Objective(objective="e2e"), member) == "500 ms (400 ms to 600 ms)"
