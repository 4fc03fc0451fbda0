"""What a regression rule without metrics watches: stages where they are told, first tokens and requests elsewhere."""

from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from controlplane.alerts.conditions.finding import Finding, Reading
from controlplane.alerts.conditions.watched_stages import (
    STAGES,
    STAGES_WITH_DRAFTS,
    STAND_INS,
    Watched,
    WatchedStages,
    is_felt,
    unwatched,
)
from controlplane.alerts.windows.history import History, extend
from controlplane.contract.metrics import WINDOW_S
from tests.controlplane.telemetry.fake_reader import FakeReader, sketch_of

COARSE = 0.5


def serve(
    telemetry: FakeReader, at: datetime, pool: str, told: int, untold: int = 0, error: float | None = None
) -> None:
    """So many requests that tell their prefill, and so many that do not, or only in buckets."""
    labels = {"pool": pool, "node": "a"}
    for metric, count in (("ttft", told + untold), ("e2e", told + untold), ("prefill", told)):
        if count:
            telemetry.add(metric, at, [0.1] * count, *([] if error is None else [error]), **labels)


def look(telemetry: FakeReader, watched: WatchedStages, at: datetime, *pools: str) -> None:
    watched.look({pool: {"pool": pool} for pool in pools}, at + timedelta(seconds=WINDOW_S))


@pytest.mark.parametrize(
    ("told", "untold", "error", "metrics", "share"),
    [
        (20, 0, None, STAGES, 1.0),
        (10, 10, None, STAGES, 0.5),
        (9, 11, None, STAND_INS, 0.45),
        (20, 0, COARSE, STAND_INS, 0.0),
    ],
)
def test_stages_are_watched_where_half_of_the_requests_tell_them_by_raw_timings(
    plant: Any, told: int, untold: int, error: float | None, metrics: tuple[str, ...], share: float
) -> None:
    telemetry = FakeReader()
    serve(telemetry, plant.now, "p", told, untold, error)
    watched = WatchedStages(telemetry)
    look(telemetry, watched, plant.now, "p")
    assert watched.of("p") == Watched(metrics, share)
    assert f"{100 * share:.0f} % of requests" in watched.of("p").words
    assert ("waiting counts as slowness" in watched.of("p").words) == (metrics == STAND_INS)


@pytest.mark.parametrize(
    ("proposed", "untold", "metrics"), [(5.0, 0, STAGES_WITH_DRAFTS), (0.0, 0, STAGES), (5.0, 100, STAND_INS)]
)
def test_where_drafts_are_proposed_the_time_per_token_is_watched_too(
    plant: Any, proposed: float, untold: int, metrics: tuple[str, ...]
) -> None:
    telemetry = FakeReader()
    serve(telemetry, plant.now, "p", 20, untold)
    telemetry.add("draft_tokens", plant.now, proposed, pool="p", node="a")
    watched = WatchedStages(telemetry)
    look(telemetry, watched, plant.now, "p")
    assert watched.of("p").metrics == metrics
    assert watched.of("p").words.endswith(f"tell them): {', '.join(metrics)}") == (metrics != STAND_INS)


def test_pools_are_looked_at_together_once_a_minute_and_what_is_silent_stays(plant: Any) -> None:
    telemetry, at = FakeReader(), plant.now
    serve(telemetry, at, "a", 20)
    serve(telemetry, at, "b", 0, 20)
    watched = WatchedStages(telemetry)
    counted: list[Any] = []
    truth = telemetry.histograms
    telemetry.histograms = lambda question: counted.append(question) or truth(question)  # type: ignore[method-assign,func-returns-value]
    look(telemetry, watched, at, "a", "b")
    look(telemetry, watched, at + timedelta(seconds=30), "a", "b")
    assert len(counted) == 1
    assert (watched.of("a").metrics, watched.of("b").metrics) == (STAGES, STAND_INS)
    look(telemetry, watched, at + timedelta(hours=2), "a", "b")
    assert watched.of("b").metrics == STAND_INS
    assert watched.of("nobody knows it").metrics == STAGES


def test_what_cannot_be_read_stays_as_it_was(plant: Any) -> None:
    telemetry = FakeReader()
    serve(telemetry, plant.now, "p", 0, 20)
    watched = WatchedStages(telemetry)
    look(telemetry, watched, plant.now, "p")
    telemetry.histograms = lambda question: 1 / 0  # type: ignore[method-assign,assignment,return-value]
    look(telemetry, watched, plant.now + timedelta(minutes=5), "p")
    assert watched.of("p").metrics == STAND_INS


def test_alerts_of_what_is_watched_no_more_end_and_say_why(plant: Any) -> None:
    rows = {
        name: SimpleNamespace(labels={"kind": "regression", "pool": "p", "metric": name}) for name in ("ttft", "itl")
    }
    job: Any = SimpleNamespace(open_alerts=rows)
    (ended,) = unwatched(job, Watched(STAGES, 1.0), plant.now)
    assert (ended.labels["metric"], ended.reading) == ("ttft", Reading.CLEAR)
    assert "judged by something else now: stages" in ended.evidence["resolved_because"]


@pytest.mark.parametrize(("grown_s", "felt"), [(0.004, False), (0.2, True)])
def test_a_minor_stage_counts_where_users_feel_it(plant: Any, grown_s: float, felt: bool) -> None:
    telemetry, start = FakeReader(), plant.now
    for tick in range(24):
        value = grown_s if tick >= 12 else 0.002
        telemetry.add("tokenize", start + timedelta(seconds=5 * tick), [value] * 20, pool="p", prompt_bucket="<=512")
    history = History({"pool": "p"}, ("tokenize",), start.timestamp())
    extend(telemetry, [history], start.timestamp() + 120)
    found = Finding({}, start, Reading.BREACH, since=start + timedelta(seconds=60), metric="tokenize", q=0.95)
    assert is_felt(found, history, lambda *_: sketch_of([1.0] * 50)) == felt
    assert is_felt(found, history, lambda *_: sketch_of([]))  # The stage is all that is known.
