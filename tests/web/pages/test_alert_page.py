"""The page of an alert: its remedies with links, and a button only for who may press it while it does something."""

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from controlplane.command.status import alert_text
from controlplane.contract.bodies.alerts import Alert, AlertState, Diagnosis, Severity
from controlplane.contract.bodies.remedies import RemedyAction, RemedyState, RemedyStep
from controlplane.contract.bodies.rollouts import Rollout, RolloutCreate, RolloutPhase
from controlplane.contract.channels.destinations import Delivery, Destination
from controlplane.contract.on_call.attribution import (
    Attribution,
    ChangedAt,
    EventBefore,
    HowMoved,
    PlaceOfShift,
    StageOfShift,
)
from controlplane.contract.on_call.incidents import Incident
from tests.web.incidents.test_incident_span import incident_of
from tests.web.part_html import part_html
from web.pages.alerts_page import PAGE

NOW = datetime(2030, 1, 1, 12, 0, tzinfo=UTC)
SOME = {"value": 0.2, "low": 0.1, "high": 0.3}
PLACE = PlaceOfShift(
    label="node",
    value="gpu 1",
    how=HowMoved.WITHIN,
    share=0.9,
    moved_s=SOME,
    before=0.25,
    during=0.25,
    own_factor=3.0,
    others_factor=1.05,
    named=True,
)
ATTRIBUTION = Attribution(
    metric="ttft",
    q=0.99,
    before_s=0.2,
    during_s=0.42,
    effect={"value": 2.1, "low": 1.8, "high": 2.5},
    tail_q=0.97,
    stages=[StageOfShift(stage="queue", before_s=0.01, during_s=0.3, grown_s=SOME, share=0.9)],
    places=[PLACE],
    place=PLACE,
    since=ChangedAt(at=NOW + timedelta(seconds=5), low=NOW, high=NOW + timedelta(seconds=10)),
    after=EventBefore(time=NOW, kind="rollout.started", subject="rollout/3", message="rollout 3 <began>", lag_s=5.0),
)


def step(action: RemedyAction, state: RemedyState, **more: Any) -> RemedyStep:
    return RemedyStep(time=NOW, action=action, state=state, cause="config_change", why="it is <slow>", **more)


PROPOSED = step(RemedyAction.ROLL_BACK, RemedyState.OFFERED, revision=4, back_to=3, rollout_id=9)
DECLINED = step(RemedyAction.STUDY, RemedyState.DECLINED, until=NOW, study_id=5)
DRAIN = step(RemedyAction.DRAIN, RemedyState.OFFERED, node="gpu 1")
ALERT = Alert(
    id=7,
    fingerprint="f",
    rule_id=1,
    rule="slow",
    state=AlertState.FIRING,
    severity=Severity.PAGE,
    labels={"pool": "p"},
    summary="slow",
    started_at=NOW,
    diagnosis=Diagnosis(
        stage="prefill",
        summary="slow",
        causes=[{"cause": "config_change", "message": "revision 4", "score": 1, "rollout_id": 2}],
    ),
    remedies=[PROPOSED, DECLINED, DRAIN],
)


class OneAlert:
    """The calls that the page makes."""

    def __init__(self, scope: str, phase: RolloutPhase) -> None:
        self.scope, self.phase = scope, phase

    def alert(self, number: int) -> Alert:
        return ALERT

    def deliveries(self, number: int) -> list[Delivery]:
        return [
            Delivery(id=one, alert_id=number, destination_id=one, state="delivered", status="firing", attempts=1)
            for one in (1, 2)
        ]

    def destinations(self) -> list[Destination]:
        """The second is no longer there."""
        return [
            Destination(
                id=1, name="pager <1>", url="https://pager.example/***", signed=False, enabled=True, created_at=NOW
            )
        ]

    def incidents(self, alert_id: int) -> list[Incident]:
        assert alert_id == ALERT.id
        more = {"state": "acknowledged", "acknowledged_by": "ada", "owner": "team-chat"}
        return [incident_of(ALERT, **more)]

    def rollout(self, number: int) -> Rollout:
        spec = RolloutCreate(pool="p", revision=3, takes_back=4)
        return Rollout(id=number, phase=self.phase, spec=spec, created_by="tailwright", created_at=NOW)

    def own_session(self) -> SimpleNamespace:
        return SimpleNamespace(scope=self.scope)


def page(scope: str = "operate", phase: RolloutPhase = RolloutPhase.PROPOSED) -> str:
    return " ".join(part_html(PAGE, "alert", OneAlert(scope, phase), alert="7").split())


def test_how_much_slower_and_how_sure_that_is_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "times as long" not in page() and "How sure" not in page()
    evidence = {
        "effect": {"factor": 1.4832, "low": 1.351, "high": 1.62, "level": 0.95},
        "error_rate": {"statement": "designed for one in 28 days"},
    }
    monkeypatch.setattr(ALERT, "evidence", evidence)
    shown = page()
    assert "<dd>1.48 times as long (1.35 to 1.62, 95 %)</dd>" in shown
    assert "<dd>designed for one in 28 days.</dd>" in shown


def test_what_moved_the_quantile_is_shown_and_leads_to_the_requests_behind_it(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "What moved" not in page()
    assert ALERT.diagnosis is not None
    told = ALERT.diagnosis.model_copy(update={"attribution": ATTRIBUTION})
    monkeypatch.setattr(ALERT, "diagnosis", told)
    shown = page()
    for wanted in (
        "What moved ttft p99",
        "2.1 times as long (1.8 to 2.5, 95 % whenever it is looked at)",
        "12:00:05 (12:00:00 to 12:00:10, 95 %)",
        "rollout 3 &lt;began&gt;",
        '<tr class="picked"><td class="whole">queue</td>',
        '<tr class="picked"><td class="whole"><span class="tag">node=gpu 1</span></td>',
        "took longer: 3 times, others 1.05",
    ):
        assert wanted in shown
    assert 'href="/requests?from=2030-01-01T11%3A59%3A00Z&amp;to=now&amp;pool=p&amp;node=gpu+1' in shown


def test_an_alert_of_a_rollout_leads_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "what may be done with it" not in page()
    monkeypatch.setattr(ALERT, "labels", {"kind": "rollout_waits", "pool": "p", "rollout": "12"})
    assert '<a href="/rollouts/12">Rollout 12</a>' in page()
    monkeypatch.setattr(ALERT, "source", "alertmanager:prod")
    assert "/rollouts/12" not in page()


def test_remedies_are_shown_with_their_links() -> None:
    shown = page()
    for wanted in (
        "roll back revision 4 to 3",
        '<a href="/rollouts/9">rollout 9</a>',
        '<a href="/studies/5">study 5</a>',
        '<a href="/nodes/gpu%201">gpu 1</a>',
        "it is &lt;slow&gt;",
        'revision 4 <a href="/rollouts/2">rollout 2</a>',
    ):
        assert wanted in shown


@pytest.mark.parametrize(
    ("scope", "phase", "there"),
    [
        ("operate", RolloutPhase.PROPOSED, True),
        ("admin", RolloutPhase.PROPOSED, True),
        ("read", RolloutPhase.PROPOSED, False),
        ("operate", RolloutPhase.CANARY, False),
    ],
)
def test_the_button_is_there_for_who_may_start_what_waits(scope: str, phase: RolloutPhase, there: bool) -> None:
    assert ('action="/rollouts/9/start"' in page(scope, phase)) is there


def test_it_leads_to_its_incident_and_names_who_was_told() -> None:
    shown = page()
    assert '<a href="/incidents/3">Incident 3</a>' in shown
    assert " by ada · owner team-chat" in shown
    assert '<td class="whole">pager &lt;1&gt;</td>' in shown and '<td class="whole">2</td>' in shown


def test_what_holds_it_back_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "silenced" not in page() and "held back" not in page()
    monkeypatch.setattr(ALERT, "silenced", True)
    monkeypatch.setattr(ALERT, "held_by", "inhibit rule 'pages & tickets'")
    shown = page()
    assert '<span class="tag">silenced</span>' in shown
    assert "held back by inhibit rule &#39;pages &amp; tickets&#39;" in shown


def test_what_an_alert_does_not_have_takes_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "Causes, the likeliest first" in page() and "Share of the increase" not in page()
    monkeypatch.setattr(ALERT, "diagnosis", Diagnosis(stage=None, summary="set back", causes=[]))
    shown = page()
    assert "set back" in shown and "Causes, the likeliest first" not in shown
    assert "Observed" not in shown and "Limit or baseline" not in shown
    monkeypatch.setattr(ALERT, "value", 0.5)
    assert "<dt>Observed</dt><dd>500 ms</dd>" in page()


def test_a_mark_of_others_leads_to_where_it_was_posted_from(monkeypatch: pytest.MonkeyPatch) -> None:
    def shown(link: str | None) -> str:
        cause = {"cause": "change_event", "message": "deploy: <gateway>", "score": 0.6, "link": link}
        monkeypatch.setattr(ALERT, "diagnosis", Diagnosis(stage=None, summary="slow", causes=[cause]))
        return page()

    assert (
        '<span class="tag">change event</span> deploy: &lt;gateway&gt; '
        '<a href="https://ci/7?&#34;" rel="noopener noreferrer">Open it there</a>'
    ) in shown('https://ci/7?"')
    assert "Open it there" not in shown(None)


def test_the_command_line_tells_what_is_done() -> None:
    assert alert_text(ALERT) == (
        "alert 7 firing: slow [roll back revision 4 to 3: offered (rollout 9); "
        "study: declined until 2030-01-01 12:00:00 UTC (study 5); drain gpu 1: offered]"
    )
    assert alert_text(ALERT.model_copy(update={"remedies": []})) == "alert 7 firing: slow"
