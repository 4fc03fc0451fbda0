"""What moved a quantile reads as a table at a terminal, with units, and never as a heap of fields."""

from datetime import UTC, datetime, timedelta

import pytest

from controlplane.contract.bodies.explanation import Bounded
from controlplane.contract.on_call.attribution import (
    Attribution,
    ChangedAt,
    EventBefore,
    HowMoved,
    PlaceOfShift,
    StageOfShift,
)
from controlplane.terminal.output.moved_lines import MOST_PLACES, print_moved

AT = datetime(2030, 1, 1, 12, tzinfo=UTC)
SOME = Bounded(value=0.2, low=-0.1, high=0.3)


def place(how: HowMoved, own: float | None = None, others: float | None = None) -> PlaceOfShift:
    return PlaceOfShift(
        label="node",
        value="gpu-3",
        how=how,
        share=-0.001,
        moved_s=SOME,
        before=0.1,
        during=0.4,
        own_factor=own,
        others_factor=others,
        named=True,
    )


def test_stages_places_time_and_event(capsys: pytest.CaptureFixture[str]) -> None:
    places = [place(HowMoved.WITHIN, 3.9, 1.04), place(HowMoved.MIX), *[place(HowMoved.WITHIN)] * MOST_PLACES]
    moved = Attribution(
        metric="ttft",
        q=0.9078,
        before_s=0.2,
        during_s=0.4,
        effect=Bounded(value=2.0, low=1.5, high=2.5),
        stages=[StageOfShift(stage="queue", before_s=0.01, during_s=0.2, grown_s=SOME, share=0.8)],
        places=places,
        since=ChangedAt(at=AT, low=AT, high=AT + timedelta(seconds=5)),
        after=EventBefore(time=AT, kind="k", subject="rollout/3", message="a rollout began", lag_s=4.0),
    )
    print_moved(moved)
    said = capsys.readouterr().out
    lines = [" ".join(line.split()) for line in said.splitlines()]
    for wanted in (
        "TTFT p90.78 went from 200 ms to 400 ms",
        "- 2 times as long (1.5 to 2.5, 95 % at any look)",
        "- since 2030-01-01 12:00:00Z (12:00:00 to 12:00:05, 95 %)",
        "- 4 s before it: a rollout began (rollout/3)",
        "queue 10 ms 200 ms 80 % -100 ms to +300 ms",
        "node=gpu-3 took longer: 3.9 times, others 1.04 0 % -100 ms to +300 ms 10 % to 40 %",
        "node=gpu-3 more of them 0 % -100 ms to +300 ms 10 % to 40 %",
        "node=gpu-3 took longer 0 % -100 ms to +300 ms 10 % to 40 %",
    ):
        assert wanted in lines
    assert said.count("node=gpu-3") == MOST_PLACES


def test_what_is_not_known_is_not_told(capsys: pytest.CaptureFixture[str]) -> None:
    print_moved(Attribution(metric="prefill", q=0.5, before_s=0.2, during_s=0.4))
    assert capsys.readouterr().out == "\nprefill p50 went from 200 ms to 400 ms\n"
