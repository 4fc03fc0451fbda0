"""What an incident's page says without a service."""

import re
from datetime import timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest

from controlplane.client import Client
from controlplane.contract.bodies.alerts import OURS
from controlplane.contract.bodies.remedies import RemedyAction, RemedyState, RemedyStep
from controlplane.contract.bodies.rollouts import RolloutPhase
from controlplane.contract.bodies.workload import RequestRecord
from controlplane.contract.on_call.incidents import IncidentDetail, TimelineEntry, TimelineKind
from tests.web.incidents.test_incident_span import ONSET, alert_of, incident_of
from tests.web.part_html import part_html
from web.incidents.incident_page import MOST_IN_A_ROW, PAGE, shared_labels, take_backs


def test_a_silence_by_pattern_begins_with_what_all_that_fire_have_in_common() -> None:
    tail, middle = (alert_of(number, kind="absolute", metric="ttft", q=q) for number, q in enumerate(("0.99", "0.5")))
    assert shared_labels(incident_of(tail, middle)) == "kind=absolute\nmetric=ttft\npool=chat"
    other = alert_of(3, kind="regression", metric="gaps")
    assert shared_labels(incident_of(tail, middle, other)) == "pool=chat"
    over = other.model_copy(update={"resolved_at": ONSET + timedelta(minutes=1)})
    assert shared_labels(incident_of(tail, middle, over)) == "kind=absolute\nmetric=ttft\npool=chat"
    assert shared_labels(incident_of(over)) == ""


class OneIncident:
    """The calls that its requests make."""

    def __init__(self, **labels: str) -> None:
        self.labels = labels

    def incident(self, number: int) -> IncidentDetail:
        return incident_of(alert_of(1, **self.labels))

    def requests(self, **_: Any) -> SimpleNamespace:
        parts = {"e2e": 0.9, "ttft": 0.5, "queue": 0.1, "prefill": 0.3, "decode": 0.4}
        told = {"node": "a", "pool": "chat", "model": "m", "revision": 1, "request_id": "r", "arrival": ONSET}
        counted = {"prompt_tokens": 9, "cached_tokens": 0, "output_tokens": 5, "finish_reason": "stop"}
        return SimpleNamespace(items=[RequestRecord(**told, **counted, parts=parts)])


@pytest.mark.parametrize(
    ("metric", "columns"),
    [("ttft", ["TTFT", "queue", "prefill", "decode"]), ("prefill", ["prefill", "queue", "decode"])],
)
def test_what_they_are_slow_by_stands_first_and_once(metric: str, columns: list[str]) -> None:
    shown = part_html(PAGE, "incident_requests", OneIncident(metric=metric), incident="3")
    heads = re.findall(r'<th class="number">([^<]*)</th>', shown)
    assert heads == ["Prompt", "Output", *columns]
    assert re.findall(r'data-label="([^"]*)">', shown) == ["Node", "Prompt", "Output", *columns]


class Rollouts:
    """The call that take-backs make: the second rollout has been started meanwhile."""

    def rollout(self, number: int) -> SimpleNamespace:
        return SimpleNamespace(phase=RolloutPhase.PROPOSED if number != 2 else RolloutPhase.CANARY)


def test_take_backs_that_wait_are_offered_once_each() -> None:
    def step(state: RemedyState, rollout: int | None) -> RemedyStep:
        told = {"time": ONSET, "cause": "config_change", "why": "it came with it"}
        return RemedyStep(action=RemedyAction.ROLL_BACK, state=state, rollout_id=rollout, **told)

    offered, declined = RemedyState.OFFERED, RemedyState.DECLINED
    first = alert_of(1).model_copy(update={"remedies": [step(offered, 1), step(offered, 2), step(offered, None)]})
    second = alert_of(2).model_copy(update={"remedies": [step(offered, 1), step(declined, 3), step(offered, 4)]})
    found = take_backs(cast(Client, Rollouts()), incident_of(first, second))
    assert [one.rollout_id for one in found] == [1, 4]


class TwoAlerts(OneIncident):
    """One alert is over where it is said to be."""

    def __init__(self, over: tuple[int, ...]) -> None:
        super().__init__()
        self.over = over

    def incident(self, number: int) -> IncidentDetail:
        ends = {one: ONSET + timedelta(minutes=1) if one in self.over else None for one in (1, 2)}
        return incident_of(*(alert_of(one).model_copy(update={"resolved_at": ends[one]}) for one in ends))


@pytest.mark.parametrize(("over", "folded"), [((), []), ((1,), [1]), ((1, 2), [])])
def test_alerts_that_are_over_are_folded_below_those_that_fire(over: tuple[int, ...], folded: list[int]) -> None:
    shown, _, below = part_html(PAGE, "incident", TwoAlerts(over), incident="3").partition("<details")
    numbers = [[int(one) for one in re.findall(r'data-key="member-(\d+)"', text)] for text in (shown, below)]
    assert numbers == [[one for one in (1, 2) if one not in folded], folded]
    assert ("1 that is over" in below) is bool(folded)


class ManyAlerts(OneIncident):
    """So many fire, each of which began, fired and joined at once; then a person wrote as many notes."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.count = count

    def incident(self, number: int) -> IncidentDetail:
        kinds = (TimelineKind.ONSET, TimelineKind.FIRED, TimelineKind.NOTE)
        timeline = [
            TimelineEntry(
                time=ONSET,
                kind=kind,
                text=f"{kind.value} {one}",
                actor="ada" if kind is TimelineKind.NOTE else OURS,
                subject=f"alert/{one}",
            )
            for kind in kinds
            for one in range(self.count)
        ]
        return incident_of(*(alert_of(one) for one in range(self.count)), timeline=timeline)


@pytest.mark.parametrize("count", [1, MOST_IN_A_ROW, MOST_IN_A_ROW + 1, 40])
def test_of_many_alerts_the_first_stand_above_what_can_be_done(count: int) -> None:
    shown, _, below = part_html(PAGE, "incident", ManyAlerts(count), incident="3").partition("<details")
    numbers = [int(one) for text in (shown, below) for one in re.findall(r'data-key="member-(\d+)"', text)]
    assert numbers == list(range(count)), "none is lost, and the order stays"
    assert shown.count("data-row") == (count if count <= MOST_IN_A_ROW + 1 else MOST_IN_A_ROW)
    assert (f"{count - MOST_IN_A_ROW} more</summary>" in below) is (count > MOST_IN_A_ROW + 1)


@pytest.mark.parametrize("count", [1, MOST_IN_A_ROW, MOST_IN_A_ROW + 1, 40])
def test_what_the_service_says_of_many_alerts_is_one_row_and_every_note_is_its_own(count: int) -> None:
    shown = part_html(PAGE, "timeline", ManyAlerts(count), incident="3")
    of_service = 2 * (count if count <= MOST_IN_A_ROW else 1)
    assert shown.count("<tr data-key") == of_service + count
    for kind in ("onset", "fired", "note"):
        assert re.findall(rf"{kind} (\d+) <a", shown) == [str(one) for one in range(count)], "none is lost"
    assert shown.count(f"and {count - 1} more until 12:00:00") == (2 if count > MOST_IN_A_ROW else 0)
