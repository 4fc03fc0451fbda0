"""Periodic work goes on whatever happens in it."""

import threading
from datetime import UTC, datetime

import pytest

from controlplane.app import background
from controlplane.app.background import STUCK_S, Background, Tick, giving_way

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def test_an_exception_is_counted_and_never_ends_the_loop() -> None:
    third = threading.Event()
    calls: list[datetime] = []

    def act(now: datetime) -> None:
        calls.append(now)
        if len(calls) == 3:
            third.set()
        if len(calls) < 3:
            raise RuntimeError("a secret")

    tick = Tick("work", 0.0, act)
    background = Background([tick], lambda: NOW)
    background.start()
    assert third.wait(10)
    background.stop()
    report = background.report()["work"]
    assert calls[0] == NOW
    assert report["runs"] >= 3
    assert report["failures"] == 2
    assert report["failing"] is False
    assert report["last_error"] == "RuntimeError"


def test_a_failing_tick_says_so() -> None:
    def act(now: datetime) -> None:
        raise ValueError

    tick = Tick("work", 1.0, act)
    tick.run(NOW)
    assert (tick.failing, tick.runs, tick.failures) == (True, 1, 1)


def test_a_deed_that_does_not_end_counts_as_failing_while_it_lasts(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = [100.0]
    monkeypatch.setattr(background.time, "monotonic", lambda: now_s[0])
    seen: list[tuple[float, bool, bool]] = []

    def act(now: datetime) -> None:
        for passed_s in (0.0, STUCK_S, STUCK_S + 1):
            now_s[0] = 100.0 + passed_s
            report = Background([tick], lambda: NOW).report()["work"]
            seen.append((tick.running_s, report["failing"], report["stuck"]))

    tick = Tick("work", 1.0, act)
    tick.run(NOW)
    assert seen == [(0.0, False, False), (STUCK_S, False, False), (STUCK_S + 1, True, True)]
    assert (tick.failing, tick.stuck, tick.running_s, tick.last_duration_s) == (False, False, 0.0, STUCK_S + 1)


def test_stop_waits_for_the_deed_under_way() -> None:
    begun, let_go, ended = threading.Event(), threading.Event(), threading.Event()

    def act(now: datetime) -> None:
        begun.set()
        let_go.wait(10)
        ended.set()

    background = Background([Tick("work", 60.0, act)], lambda: NOW)
    background.start()
    assert begun.wait(10)
    let_go.set()
    background.stop()
    assert ended.is_set()


def test_one_tick_does_not_hold_up_another() -> None:
    let_go, other = threading.Event(), threading.Event()
    slow = Tick("slow", 60.0, lambda now: let_go.wait(10))
    quick = Tick("quick", 60.0, lambda now: other.set())
    background = Background([slow, quick], lambda: NOW)
    background.start()
    assert other.wait(10)
    let_go.set()
    background.stop()


@pytest.mark.parametrize(
    ("busy", "done"),
    [("------", "xxxxxx"), ("-b----", "x-xxxx"), ("bbbbbb", "-x-x-x"), ("b--bb-", "-xx-xx")],
)
def test_a_deed_that_gives_way_is_put_off_once_and_never_twice_in_a_row(busy: str, done: str) -> None:
    acted: list[int] = []
    act = giving_way(lambda now: acted.append(now.second), lambda: busy[second] == "b")
    for second in range(len(busy)):
        act(NOW.replace(second=second))
    assert acted == [second for second, was in enumerate(done) if was == "x"]
