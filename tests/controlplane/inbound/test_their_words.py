"""What others' labels mean here: urgency, place, title."""

import pytest

from controlplane.contract.bodies.alerts import Severity
from controlplane.inbound.their_words import MOST_TITLE, KnownNode, host_of, place_of, severity_of, title_of

NODES = (KnownNode("gpu-1", "chat", "10.0.0.5"), KnownNode("gpu-2", "batch"))


@pytest.mark.parametrize(
    ("labels", "severity"),
    [
        ({"severity": "critical"}, Severity.PAGE),
        ({"severity": " Page "}, Severity.PAGE),
        ({"priority": "P1"}, Severity.PAGE),
        ({"severity": "warning", "priority": "p1"}, Severity.TICKET),
        ({"severity": "info"}, Severity.TICKET),
        ({}, Severity.TICKET),
    ],
)
def test_what_wakes_people_over_there_wakes_them_here(labels: dict[str, str], severity: Severity) -> None:
    assert severity_of(labels) is severity


@pytest.mark.parametrize(
    ("labels", "place"),
    [
        ({"pool": "chat"}, {"pool": "chat"}),
        ({"tailwright_pool": "chat", "node": "x"}, {"pool": "chat", "node": "x"}),
        ({"instance": "gpu-1:9100"}, {"pool": "chat", "node": "gpu-1"}),
        ({"instance": "10.0.0.5:9100"}, {"pool": "chat", "node": "gpu-1"}),
        ({"instance": "10.0.0.6:9100"}, {}),
        ({"instance": "switch", "pod": "gpu-2"}, {"pool": "batch", "node": "gpu-2"}),
        ({"pool": "other", "node": "gpu-2"}, {"pool": "other", "node": "gpu-2"}),
    ],
)
def test_a_name_that_the_fleet_knows_tells_the_pool(labels: dict[str, str], place: dict[str, str]) -> None:
    assert place_of(labels, NODES) == place


@pytest.mark.parametrize(
    ("instance", "host"),
    [("gpu-1:9100", "gpu-1"), ("gpu-1", "gpu-1"), ("[::1]:80", "::1"), ("::1", "::1"), ("a:b", "a:b")],
)
def test_a_port_is_no_part_of_a_host(instance: str, host: str) -> None:
    assert host_of(instance) == host


def test_the_title_is_one_line_of_theirs_or_made_of_labels() -> None:
    labels = {"alertname": "Down", "job": "gw"}
    assert title_of(labels, {"description": "long", "summary": "gw\nis  down"}) == "gw is down"
    assert title_of(labels, {"summary": " "}) == "Down: job=gw"
    assert len(title_of(labels, {"summary": "x" * 9000})) == MOST_TITLE
