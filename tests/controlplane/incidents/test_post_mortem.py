"""The post-mortem as Markdown."""

from collections.abc import Callable
from datetime import timedelta

import pytest

from controlplane.contract.bodies.alerts import Alert, Severity, StageShift
from controlplane.contract.on_call.incidents import (
    IncidentAlert,
    IncidentDetail,
    IncidentNote,
    IncidentState,
)
from controlplane.incidents.markdown import plain
from controlplane.incidents.post_mortem import post_mortem
from controlplane.incidents.timeline import timeline
from tests.controlplane.incidents.conftest import START

LINK = "https://tailwright.example/incidents/4"


def incident_of(*alerts: Alert, note: str = "we looked") -> IncidentDetail:
    notes = [IncidentNote(id=1, time=START + timedelta(seconds=60), author="ada", text=note)]
    return IncidentDetail(
        id=4,
        state=IncidentState.RESOLVED,
        severity=Severity.PAGE,
        title="TTFT p99 rose",
        pool="chat",
        owner="team | chat",
        route="r",
        onset_at=START,
        opened_at=START + timedelta(seconds=90),
        resolved_at=START + timedelta(seconds=1000),
        resolved_by="tailwright",
        alerts=len(alerts),
        firing=0,
        silenced=False,
        stage=None,
        causes=[{"cause": "load", "message": "load rose"}],
        members=[IncidentAlert(alert=one, joined_at=START, why="it is the first") for one in alerts],
        notes=notes,
        timeline=timeline(alerts, [], notes, []),
    )


def test_it_says_what_is_known_and_leaves_room_for_the_rest(alert: Callable[..., Alert]) -> None:
    made = alert(7, ended_s=500, evidence={"before_s": 0.25}, value=1.5, stage="queue")
    assert made.diagnosis is not None
    made.diagnosis.stages = [
        StageShift(
            stage="queue",
            before_mean_s=0.01,
            during_mean_s=0.5,
            before_p99_s=0.02,
            during_p99_s=None,
            share_of_increase=0.9,
        )
    ]
    text = post_mortem(incident_of(made), LINK)
    assert text.startswith("# Post-mortem: incident 4\n\nTTFT p99 rose\n")
    assert "| Time to detect | 10.0 s |" in text and "| Owner | team \\| chat |" in text and f"<{LINK}>" in text
    assert "- TTFT went from 250 ms to 1.50 s." in text
    assert "| queue | 10 ms | 500 ms | 20 ms | - | 90 % |" in text
    assert "1. load rose" in text and "- 2030-01-01 12:01:00, ada: we looked" in text
    for heading in ("Timeline (UTC)", "Alerts", "What went well", "What went badly", "Actions"):
        assert f"\n## {heading}\n" in text


def test_it_was_detected_when_the_first_alert_fired_and_acknowledged_after_that(alert: Callable[..., Alert]) -> None:
    incident = incident_of(alert(1, began_s=30), alert(2, began_s=20))
    incident.acknowledged_at = START + timedelta(seconds=100)
    text = post_mortem(incident, LINK)
    assert "| Time to detect | 30.0 s |" in text and "| Time to acknowledge | 70.0 s |" in text
    nobody_told = post_mortem(incident_of(), LINK)
    assert "| Time to detect | 90.0 s |" in nobody_told


@pytest.mark.parametrize("evil", ["a | b\n| c |", "# head", "<script>x</script>", "[x](javascript:y)", "`code`"])
def test_what_people_wrote_makes_no_markup(alert: Callable[..., Alert], evil: str) -> None:
    quiet, loud = (post_mortem(incident_of(alert(1), note=text), LINK) for text in ("calm", evil))
    assert len(loud.splitlines()) == len(quiet.splitlines())
    written = plain(evil)
    assert written in loud and "\n" not in written
    assert all(written[at - 1] == "\\" for at, letter in enumerate(written) if letter in "|<>[]`#")
