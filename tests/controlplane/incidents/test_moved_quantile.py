"""What moved the quantile, in a post-mortem: a table each of stages and places, and nothing that could be markup."""

from datetime import timedelta

from controlplane.contract.bodies.alerts import Alert, Diagnosis
from controlplane.contract.bodies.explanation import Bounded
from controlplane.contract.on_call.attribution import (
    Attribution,
    ChangedAt,
    EventBefore,
    HowMoved,
    PlaceOfShift,
    StageOfShift,
)
from controlplane.incidents.moved_quantile import moved_quantile
from controlplane.incidents.ranked_causes import told_attribution
from tests.controlplane.incidents.conftest import START, alert_of

SOME = Bounded(value=0.2, low=-0.1, high=0.3)
PLACE = PlaceOfShift(
    label="tenant", value="a|b", how=HowMoved.MIX, share=0.9, moved_s=SOME, before=0.1, during=0.4, named=True
)


def moved(place: PlaceOfShift | None = PLACE) -> Attribution:
    return Attribution(
        metric="ttft",
        q=0.99,
        before_s=0.2,
        during_s=0.4,
        effect=Bounded(value=2.0, low=1.5, high=2.5),
        tail_q=0.95,
        stages=[StageOfShift(stage="queue", before_s=0.01, during_s=0.2, grown_s=SOME, share=0.8)],
        places=[] if place is None else [place],
        place=place,
        since=ChangedAt(at=START, low=START, high=START + timedelta(seconds=5)),
        after=EventBefore(time=START, kind="k", subject="rollout/3", message="rollout *3* began", lag_s=4.0),
    )


def test_it_has_the_effect_the_time_the_event_and_both_tables() -> None:
    text = "\n".join(moved_quantile(moved()))
    for wanted in (
        "### What moved TTFT p99",
        "- 2 times as long (1.5 to 2.5, 95 % at any look).",
        "- Since 12:00:00 (12:00:00 to 12:00:05, 95 %).",
        "- 4 s before it: rollout \\*3\\* began (rollout/3).",
        "| queue | 10 ms | 200 ms | 80 % | -100 ms to +300 ms |",
        "| **tenant a\\|b** | more of them | 90 % | -100 ms to +300 ms | 10 % to 40 % |",
    ):
        assert wanted in text


def test_nothing_known_says_nothing() -> None:
    assert list(moved_quantile(None)) == []


def of(attribution: Attribution | None) -> Alert:
    told = Diagnosis(stage=None, summary="", attribution=attribution)
    return alert_of(1).model_copy(update={"diagnosis": told})


def test_an_incidents_is_that_of_the_first_alert_that_names_a_place() -> None:
    without, with_place = moved(None), moved()
    assert told_attribution([alert_of(1), of(None), of(without), of(with_place)]) is with_place
    assert told_attribution([of(without), of(None)]) is without
    assert told_attribution([alert_of(1)]) is None
