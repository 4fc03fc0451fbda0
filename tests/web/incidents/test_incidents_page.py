"""The list of incidents, and what an incident's page says."""

from datetime import timedelta
from types import SimpleNamespace
from typing import Any

from controlplane.contract.bodies.alerts import Severity
from controlplane.contract.on_call.incidents import Incident, IncidentNote, IncidentState, TimelineEntry, TimelineKind
from tests.web.incidents.test_incident_span import ONSET, alert_of, incident_of
from tests.web.part_html import part_html
from web.incidents import incident_forms, incident_page, incidents_page

CAUSES = [
    {"cause": "config_change", "message": "revision 4 <came>", "revision": 4, "previous_revision": 3, "rollout_id": 2}
    | {"alerts": [1, 2]},
    {"cause": "one_node", "message": "it is node gpu 1 alone", "node": "gpu 1", "alerts": [2]},
]


class OneIncident:
    """The calls that the pages make."""

    def __init__(self, **more: Any) -> None:
        self.found = incident_of(alert_of(1, metric="ttft"), alert_of(2, metric="itl"), causes=CAUSES, **more)
        self.silences: list[Any] = []

    def incident(self, number: int) -> Any:
        assert number == 3
        return self.found

    def incidents(self, **_: Any) -> list[Incident]:
        ticket = self.found.model_copy(update={"id": 4, "severity": Severity.TICKET, "title": "drift"})
        return [ticket, self.found]

    def latest_incidents(self, limit: int, **_: Any) -> list[Incident]:
        merged = {"id": 5, "state": IncidentState.MERGED, "merged_into": 3, "resolved_at": ONSET}
        return [self.found, self.found.model_copy(update=merged)][:limit]

    def create_study(self, wanted: dict[str, Any], key: str | None) -> SimpleNamespace:
        self.wanted, self.key = wanted, key
        return SimpleNamespace(id=8)

    def add_incident_note(self, number: int, text: str) -> None:
        self.note = text


def said(page: Any, part: str, client: Any, **params: str) -> str:
    return " ".join(part_html(page, part, client, **params).split())


def test_those_that_page_come_first_and_those_that_are_over_last() -> None:
    shown = said(incidents_page.PAGE, "incidents", OneIncident())
    places = [shown.index(f'href="/incidents/{number}" data-row') for number in (3, 4, 5)]
    assert places == sorted(places)
    assert "Went into incident 3" in shown and "2 of 2 fire" in shown


def test_the_list_is_cut_to_the_addresss_time() -> None:
    long_ago = said(
        incidents_page.PAGE,
        "incidents",
        OneIncident(),
        **{"from": "2020-01-01T00:00:00Z", "to": "2020-02-01T00:00:00Z"},
    )
    assert "No incident is open." in long_ago and "None yet." in long_ago


def test_an_incident_says_why_and_leads_on() -> None:
    shown = said(
        incident_page.PAGE,
        "incident",
        OneIncident(owner="team", acknowledged_at=ONSET, acknowledged_by="ada"),
        incident="3",
    )
    for wanted in (
        "revision 4 &lt;came&gt;",
        '<a href="/rollouts/2">Rollout 2</a>',
        '<a href="/configs?a=3&amp;b=4">Revision 4</a>',
        '<a href="/nodes/gpu%201">gpu 1</a>',
        '<a href="/alerts/2">alert 2</a>',
        "owner team",
        "by ada",
    ):
        assert wanted in shown
    assert "quiet" not in shown.lower()
    quiet = said(incident_page.PAGE, "incident", OneIncident(quiet_since=ONSET), incident="3")
    assert "since 12:00:00; it is resolved when it stays so" in quiet


def test_alerts_of_others_say_whose_they_are_and_lead_there() -> None:
    client = OneIncident(sources=["tailwright", "grafana"])
    theirs = {"source": "grafana", "link": "https://grafana.test/a?b=1&c=2", "rule": "Down"}
    client.found.members[1].alert = client.found.members[1].alert.model_copy(update=theirs)
    shown = said(incident_page.PAGE, "incident", client, incident="3")
    assert shown.count("Open it there") == 1
    assert (
        '<span class="tag">grafana</span> <a href="https://grafana.test/a?b=1&amp;c=2" rel="noopener noreferrer">'
        in shown
    )
    assert said(incidents_page.PAGE, "incidents", client).count('<span class="tag">grafana</span>') == 3


def test_the_timeline_links_what_it_is_about() -> None:
    entries = [
        TimelineEntry(time=ONSET + timedelta(seconds=place), kind=kind, text=f"t{place}", subject=subject)
        for place, (kind, subject) in enumerate(
            [
                (TimelineKind.FIRED, "alert/1"),
                (TimelineKind.CHANGE, "rollout/2"),
                (TimelineKind.CHANGE, "study/8"),
                (TimelineKind.NOT_SENT, "alert/2"),
                (TimelineKind.OPENED, "incident/3"),
            ]
        )
    ]
    shown = said(incident_page.PAGE, "timeline", OneIncident(timeline=entries), incident="3")
    for wanted in ('href="/alerts/1"', 'href="/rollouts/2"', 'href="/studies/8"', "not sent"):
        assert wanted in shown
    assert "/incidents/3" not in shown


def test_a_study_is_of_the_pool_and_the_metric_that_got_slow() -> None:
    client: Any = OneIncident()
    assert incident_forms.started_study(client, client.found) == 8
    assert client.wanted == {"pool": "chat", "objective": "ttft"} and client.note == "Study 8 was started."
    drift = incident_of(alert_of(1, kind="drift"))
    incident_forms.started_study(client, drift)
    assert client.wanted == {"pool": "chat", "objective": "e2e"} and client.key is None


def test_a_study_that_is_asked_for_twice_is_noted_once() -> None:
    note = IncidentNote(id=1, time=ONSET, author="ada", text="Study 8 was started.")
    client: Any = OneIncident(notes=[note])
    client.note = None
    assert incident_forms.started_study(client, client.found, "one-page") == 8
    assert client.key == "one-page" and client.note is None


def test_alerts_that_are_over_are_not_silenced() -> None:
    over = alert_of(1, metric="ttft").model_copy(update={"resolved_at": ONSET})
    theirs = alert_of(4, metric="e2e").model_copy(update={"source": "grafana"})
    found = incident_of(over, alert_of(2, metric="itl"), alert_of(3, metric="itl"), theirs)
    assert incident_forms.firing_labels(found) == [{"pool": "chat", "metric": "itl"}]
