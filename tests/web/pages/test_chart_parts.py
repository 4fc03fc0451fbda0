"""What a chart asks of the API, and what the server writes of its answer: lines, gaps, marks, and what is left out."""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from controlplane.contract.bodies.ledger import LedgerEntry
from controlplane.contract.bodies.telemetry import QuantilesAnswer, SharesAnswer
from web.frame.rendering import templates
from web.frame.selection import Selection, selection_of
from web.pages.chart_parts import MOST_LINES, latency, mark_of, marks, parts

START = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
END = START + timedelta(minutes=5)


class Entry:
    """An entry of the ledger, as far as a chart reads it."""

    time, subject, message = START + timedelta(minutes=1), "rollout/3", "revision 7 serves pool chat"
    evidence: Mapping[str, Any] = {}

    def __init__(self, kind: str) -> None:
        self.kind = kind


class Measured:
    """Answers with these series, and keeps what it was asked."""

    def __init__(self, *series: dict[str, Any], left_out: int = 0, error: float = 0.02) -> None:
        cut = {"left_out": {"series": left_out, "mend": "ask for fewer"}} if left_out else {}
        told = {"metric": "ttft", "unit": "s", "start": START, "end": END, "relative_error": error, "series": series}
        self._answer = QuantilesAnswer.model_validate(told | cut)
        self.asked: dict[str, Any] = {}

    def quantiles(self, metric: str, q: Sequence[float], **asked: Any) -> QuantilesAnswer:
        self.asked = {"metric": metric, **asked}
        return self._answer

    def ledger(self, *, kind: str, limit: int) -> list[Entry]:
        entries = [Entry("rollout.promoted"), Entry("trial.measured"), Entry("node.config_applied")]
        return [entry for entry in entries if entry.kind.startswith(kind)]


class Shared(Measured):
    """Answers with what share of the time each part took."""

    def __init__(self, *points: dict[str, Any]) -> None:
        super().__init__()
        whole = {"labels": {}, "requests": 4, "e2e_s": 4.0, "shares": {}, "counts": {}, "error": 0.0, "points": points}
        told = {"start": START, "end": END, "error": 0.0, "series": [whole] if points else []}
        self._shares = SharesAnswer.model_validate(told)

    def shares(self, **asked: Any) -> SharesAnswer:
        self.asked = asked
        return self._shares


def share_point(at: int, requests: int, e2e_s: float, **shares: float) -> dict[str, Any]:
    time = START + timedelta(seconds=5 * at)
    return {"time": time, "requests": requests, "e2e_s": e2e_s, "shares": shares, "error": 0.0}


def series(*places: int, **labels: str) -> dict[str, Any]:
    """With a point at each of these steps of 5 s."""
    points = [
        {"time": START + timedelta(seconds=5 * at), "count": 2, "quantiles": {"0.5": 0.01, "0.95": 0.02, "0.99": 0.04}}
        for at in places
    ]
    return {"labels": labels, "count": 2 * len(places), "quantiles": {}, "points": points}


def selected(**params: str) -> Selection:
    return selection_of({"from": "now-5m", **params}, END)


def html(client: Measured, **params: str) -> str:
    context = latency(client, selected(**params), "ttft")  # type: ignore[arg-type]
    return templates.get_template("parts/line_chart.html").render(title="Time to first token", **context)


def test_a_chart_says_what_it_leaves_out_and_how_exact_it_is() -> None:
    text = html(Measured(series(0, 1), left_out=7, error=0.6))
    assert "7 with fewer requests are not shown" in text and "± 60 %: from /metrics buckets" in text
    assert "with fewer requests" not in html(Measured(series(0, 1)))


def test_a_span_without_data_says_so() -> None:
    text = html(Measured())
    assert "no data in this span" in text and "No data in this span." in text


def test_each_quantile_is_a_line_and_a_gap_in_the_data_one_in_the_line() -> None:
    chart = latency(Measured(series(0, 1, 2, 9, 10)), selected(), "ttft")["chart"]  # type: ignore[arg-type]
    assert [line.name for line in chart.lines] == ["p50", "p95", "p99"]
    assert {line.path.count("M") for line in chart.lines} == {2}
    assert chart.values["times"][3] == (START + timedelta(seconds=45)).isoformat()


def test_by_node_each_node_is_a_line_at_p99() -> None:
    client = Measured(series(0, node="a"), series(1, node="b"))
    chart = latency(client, selected(), "ttft", by="node")["chart"]  # type: ignore[arg-type]
    assert [line.name for line in chart.lines] == ["p99 a", "p99 b"] and client.asked["by"] == ["node"]
    assert client.asked["top"] == MOST_LINES  # And says how many others there are.
    assert chart.values["lines"][0]["y"] == [0.04, None]


def test_the_mean_requests_parts_stand_on_each_other_and_sum_up_to_its_time() -> None:
    busy, idle = share_point(0, 2, 4.0, queue=0.25, decode=0.7, unaccounted=0.05), share_point(1, 0, 0.0)
    context = parts(Shared(busy, idle), selected(pool="chat"))  # type: ignore[arg-type]
    chart = context["chart"]
    assert [line.look for line in chart.lines] == ["layer part-queue", "layer part-decode", "layer part-unaccounted"]
    assert [line["y"] for line in chart.values["lines"]] == [
        [0.5],
        [1.4],
        [0.1],
    ]  # Of 2 s; a step without requests has none.
    assert "no data in this span" in templates.get_template("parts/line_chart.html").render(
        **parts(Shared(), selected())  # type: ignore[arg-type]
    )


def test_what_happened_meanwhile_is_marked_with_words() -> None:
    text = html(Measured(series(0, 1)))
    assert "rollout 3 promoted</text>" in text
    assert "<title>2026-03-01 12:01:00 UTC, rollout 3 promoted: revision 7 serves pool chat</title>" in text
    assert text.count('class="mark ') == 1
    assert mark_of(START, "trial.measured", "study/1", "") is None


def test_a_part_of_the_past_asks_for_itself_with_a_step_that_fits_it_and_the_bars_filters() -> None:
    client = Measured(series(0))
    html(client, **{"from": START.isoformat(), "to": (START + timedelta(minutes=10)).isoformat()}, node="gpu-1")
    assert client.asked == {
        "metric": "ttft",
        "step": "5s",
        "by": [],
        "top": MOST_LINES,
        "start": START,
        "end": START + timedelta(minutes=10),
        "node": "gpu-1",
    }
    html(client)
    assert client.asked["window"] == "300s" and "start" not in client.asked


def test_an_engine_that_was_started_again_or_is_of_another_version_is_marked() -> None:
    for kind, words in (("node.engine_restarted", "engine restarted"), ("node.engine_version", "engine version")):
        mark = mark_of(START, kind, "node/gpu-1", "the engine of node gpu-1 was started again: vllm 1")
        assert mark is not None and (mark.kind, mark.words) == ("engine", f"node gpu-1 {words}")


def test_what_is_marked_is_listed_for_the_table() -> None:
    values = latency(Measured(series(0, 1)), selected(), "ttft")["chart"].values  # type: ignore[arg-type]
    ((moment, words),) = values["marks"]
    assert moment == (START + timedelta(minutes=1)).isoformat()
    assert words == "rollout 3 promoted: revision 7 serves pool chat"


class Happened:
    """A ledger in which pools chat and batch had an alert, a rollout, a node and a deed of others each."""

    def ledger(self, *, kind: str, limit: int) -> list[LedgerEntry]:
        told = (
            ("alert.fired", "alert/{}", {"labels": {"pool": "{}"}}),
            ("rollout.promoted", "rollout/{}", {"pool": "{}"}),
            ("revision.adopted", "pool/{}", {"revision": 1}),
            ("node.enrolled", "node/{}", {"pool": "{}"}),
            ("event.posted", "event/{}", {"labels": {"pool": "{}"}, "time": START.isoformat()}),
        )
        of_pools = [
            (name, subject.format(pool), json.loads(json.dumps(said).replace("{}", pool)))
            for name, subject, said in told
            for pool in ("chat", "batch")
        ]
        anywhere = [
            ("revision.created", "revision/1", {"hash": "h"}),
            ("event.posted", "event/3", {"labels": {}, "time": START.isoformat()}),
            ("alert.fired", "alert/3", {"labels": {"kind": "drift"}}),
        ]
        return [
            LedgerEntry(id=1, time=START, actor="a", kind=name, subject=subject, message=subject, evidence=said)
            for name, subject, said in [*of_pools, *anywhere]
            if name.startswith(kind)
        ]


def test_a_chart_of_one_pool_has_no_marks_of_another() -> None:
    every, chat, other = (
        {(mark.kind, mark.message) for mark in marks(Happened(), pool)}  # type: ignore[arg-type]
        for pool in (None, "chat", "other")
    )
    of_none = {("revision", "revision/1"), ("event", "event/3"), ("alert", "alert/3")}
    assert other == of_none and len(every) == 13
    assert chat - of_none == {
        ("alert", "alert/chat"),
        ("rollout", "rollout/chat"),
        ("revision", "pool/chat"),
        ("node", "node/chat"),
        ("event", "event/chat"),
    }
