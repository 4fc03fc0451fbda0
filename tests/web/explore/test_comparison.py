"""Two sides compared: which they are, what is asked of the API, and how its difference and error are written."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from controlplane.contract.bodies.explanation import Bounded, CompareAnswer, ComparedQuantile
from web.explore.comparison import b_params, mean_stacks, rows_of, sides_of, signed, verdict_of
from web.frame.selection import selection_of
from web.frame.states import Kind

NOW = datetime(2026, 3, 1, 12, 0, 3, tzinfo=UTC)
WINDOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


def sides(**params: str) -> Any:
    return sides_of(selection_of(params, NOW))


def interval(value: float, error: float) -> dict[str, float]:
    return {"value": value, "low": value - error, "high": value + error}


def quantile(q: str, a: float, b: float, *, differs: bool | None = True) -> dict[str, Any]:
    whole = differs is not None
    told: dict[str, Any] = {"q": q, "needed": 600, "a_value": a, "b_value": b, "differs": differs, "sentence": "so."}
    told |= {"a": interval(a, 0.01) if whole else None, "b": interval(b, 0.01) if whole else None}
    return told | {
        "difference": interval(a - b, 0.02) if whole else None,
        "ratio": interval(a / b, 0.1) if whole else None,
    }


def metric(name: str, *quantiles: dict[str, Any], a_mean: float | None = 2.0, b_mean: float | None = 1.0) -> Any:
    told = {"metric": name, "unit": "s", "a_count": 9, "b_count": 9, "relative_error": 0.01, "quantiles": quantiles}
    return told | {"a_mean": a_mean, "b_mean": b_mean}


def answer(*metrics: Any) -> CompareAnswer:
    side = {"start": WINDOW, "end": NOW, "labels": {}}
    return CompareAnswer.model_validate({"level": 0.95, "a": side, "b": side, "metrics": metrics})


def test_an_earlier_span_is_as_long_and_ends_with_a_window_of_data() -> None:
    found = sides(compare="earlier:1d", pool="chat")
    wanted = {"start": WINDOW - timedelta(minutes=15), "end": WINDOW}
    assert found.own.span == wanted
    assert b_params(found) == {f"b_{name}": moment - timedelta(days=1) for name, moment in wanted.items()}
    assert (found.own_name, found.other_name) == ("this span", "1d earlier")


@pytest.mark.parametrize(
    ("params", "names", "asked"),
    [
        ({"compare": "revision:3"}, ("every revision", "revision 3"), {"b_revision": "3"}),
        ({"compare": "revision:3", "revision": "4"}, ("revision 4", "revision 3"), {"b_revision": "3"}),
        ({"compare": "node:gpu-2", "node": "gpu-1"}, ("node gpu-1", "node gpu-2"), {"b_node": "gpu-2"}),
    ],
)
def test_a_label_is_compared_within_one_span(params: dict[str, str], names: Any, asked: dict[str, str]) -> None:
    found = sides(**params)
    assert (found.own_name, found.other_name) == names
    assert b_params(found) == asked


def test_all_quantiles_of_the_metric_and_the_tail_of_each_part_are_told() -> None:
    told = answer(
        metric("ttft", quantile("0.5", 0.2, 0.1), quantile("0.95", 2.0, 1.0)),
        metric("queue", quantile("0.5", 0.2, 0.1), quantile("0.95", 0.5, 0.1)),
    )
    rows = rows_of(told, "0.95")
    assert [(row.metric, row.quantile) for row in rows] == [("ttft", "p50"), ("ttft", "p95"), ("queue", "p95")]
    assert rows[1].own == "2.00 s (1.99 s to 2.01 s)"
    assert rows[1].ratio == "2.00 × (1.90 to 2.10)"
    assert rows[1].difference == "+1.00 s (+980 ms to +1.02 s)"
    assert rows_of(answer(), "0.95") == []


@pytest.mark.parametrize(
    ("one", "verdict"),
    [
        (quantile("0.99", 2.0, 1.0), (Kind.BAD, "slower")),
        (quantile("0.99", 1.0, 2.0), (Kind.GOOD, "faster")),
        (quantile("0.99", 1.0, 1.0, differs=False), (Kind.UNKNOWN, "no clear difference")),
        (quantile("0.99", 1.0, 2.0, differs=None), (Kind.UNKNOWN, "too few: 600 needed on each side")),
    ],
)
def test_a_difference_has_a_verdict(one: dict[str, Any], verdict: tuple[Kind, str]) -> None:
    assert verdict_of(ComparedQuantile.model_validate(one)) == verdict


def test_a_difference_that_may_be_either_way_shows_both_signs() -> None:
    assert signed(Bounded(value=-0.1, low=-0.3, high=0.1)) == "-100 ms (-300 ms to +100 ms)"


def test_the_means_of_both_are_stacked_against_each_other() -> None:
    drawn = mean_stacks(answer(metric("ttft"), metric("queue"), metric("decode")), sides(compare="earlier:1h"))
    assert drawn is not None and [stack.row.name for stack in drawn.stacks] == ["1h earlier", "this span"]
    assert [one.part for one in drawn.stacks[1].differences] == ["queue", "decode"]
    assert mean_stacks(answer(metric("queue", b_mean=None)), sides(compare="earlier:1h")) is None
