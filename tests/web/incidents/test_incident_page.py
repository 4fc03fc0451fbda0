"""What an incident's page says without a service."""

from datetime import timedelta

from tests.web.incidents.test_incident_span import ONSET, alert_of, incident_of
from web.incidents.incident_page import shared_labels


def test_a_silence_by_pattern_begins_with_what_all_that_fire_have_in_common() -> None:
    tail, middle = (alert_of(number, kind="absolute", metric="ttft", q=q) for number, q in enumerate(("0.99", "0.5")))
    assert shared_labels(incident_of(tail, middle)) == "kind=absolute\nmetric=ttft\npool=chat"
    other = alert_of(3, kind="regression", metric="gaps")
    assert shared_labels(incident_of(tail, middle, other)) == "pool=chat"
    over = other.model_copy(update={"resolved_at": ONSET + timedelta(minutes=1)})
    assert shared_labels(incident_of(tail, middle, over)) == "kind=absolute\nmetric=ttft\npool=chat"
    assert shared_labels(incident_of(over)) == ""
