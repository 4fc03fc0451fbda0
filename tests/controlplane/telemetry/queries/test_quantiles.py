"""Quantiles as they are answered over HTTP: of each series, of each step, with counts, means and their error."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import httpx
import pytest

from controlplane.contract.histogram import RELATIVE_ERROR


@pytest.fixture
def ask(api: httpx.Client, make_report: Callable[..., Any], start: datetime) -> Callable[..., dict[str, Any]]:
    for second, node, values in ((0, "a", [0.1, 0.2, 0.3]), (5, "a", [0.4]), (5, "b", [2.0, 4.0])):
        report = make_report(node=node, start=start + timedelta(seconds=second))
        report.histogram(values, model="m")
        sent = api.post(
            "/v1/metrics",
            content=report.request.SerializeToString(),
            headers={"Content-Type": "application/x-protobuf"},
        )
        assert sent.status_code == 200

    def asked(**more: str) -> dict[str, Any]:
        span = {"start": start.isoformat(), "end": (start + timedelta(seconds=10)).isoformat()}
        answer = api.get("/api/v1/quantiles", params={"metric": "ttft", "q": "0.5,1", **span, **more})
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found

    return asked


def near(seconds: float) -> Any:
    return pytest.approx(seconds, rel=RELATIVE_ERROR)


def test_each_series_has_its_quantiles_its_mean_and_what_is_behind_them(ask: Callable[..., dict[str, Any]]) -> None:
    found = ask(by="node")
    assert (found["metric"], found["unit"], found["relative_error"]) == ("ttft", "s", RELATIVE_ERROR)
    assert (found["start"], found["end"]) == ("2026-03-01T12:00:00Z", "2026-03-01T12:00:10Z")
    a, b = found["series"]
    assert (a["labels"], a["count"], a["mean"], a["points"]) == ({"node": "a"}, 4, pytest.approx(0.25), None)
    assert (b["labels"], b["count"], b["mean"]) == ({"node": "b"}, 2, pytest.approx(3.0))
    assert a["quantiles"] == {"0.5": near(0.2), "1": near(0.4)} and b["quantiles"]["1"] == near(4.0)
    assert a["relative_error"] == b["relative_error"] == RELATIVE_ERROR


def test_steps_are_points_of_their_own_series(ask: Callable[..., dict[str, Any]]) -> None:
    a, b = ask(by="node", step="5s")["series"]
    assert [(point["time"], point["count"]) for point in a["points"]] == [
        ("2026-03-01T12:00:00Z", 3),
        ("2026-03-01T12:00:05Z", 1),
    ]
    assert [(point["time"], point["count"]) for point in b["points"]] == [("2026-03-01T12:00:05Z", 2)]
    assert a["points"][0]["quantiles"] == {"0.5": near(0.2), "1": near(0.3)}
    assert (a["count"], a["quantiles"]["1"]) == (4, near(0.4))


def test_no_data_is_an_empty_answer_with_the_axis_own_error(ask: Callable[..., dict[str, Any]]) -> None:
    found = ask(metric="e2e")
    assert (found["series"], found["relative_error"]) == ([], RELATIVE_ERROR)
