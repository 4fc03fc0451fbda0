"""The usual words: figures by names that hold for a limit and for a baseline."""

from controlplane.alerts.channels.channel import Notification, Status
from controlplane.alerts.channels.wording import text_of
from tests.alerts_made import NOW, alert_made


def test_a_regression_is_held_against_its_baseline_which_is_no_limit() -> None:
    told = text_of(Notification(alert_made(), Status.FIRING, "on-call", "https://a.example", NOW))
    assert told.splitlines()[:4] == [
        "TTFT p99 rose from 210 ms to 1.9 s",
        "Value: 1.90 s",
        "Limit or baseline: 210 ms",
        "Stage: prefill",
    ]
