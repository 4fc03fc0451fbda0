"""An alert as a rule would fire it, for tests of how it is told."""

from datetime import UTC, datetime, timedelta
from typing import Any

from controlplane.contract.bodies.alerts import Alert, AlertState, Diagnosis, Severity

NOW = datetime(2030, 1, 1, 12, tzinfo=UTC)


def alert_made(**other: Any) -> Alert:
    """One that fires since a minute."""
    fields: dict[str, Any] = {
        "id": 7,
        "fingerprint": "f" * 16,
        "rule_id": 3,
        "rule": "Latency regression",
        "state": AlertState.FIRING,
        "severity": Severity.PAGE,
        "labels": {"pool": "main", "node": "gpu-1", "metric": "ttft"},
        "summary": "TTFT p99 rose from 210 ms to 1.9 s",
        "started_at": NOW - timedelta(seconds=60),
        "fired_at": NOW,
        "value": 1.9,
        "threshold": 0.21,
        "evidence": {"error_rate": {"statement": "one false alarm in 7 days"}},
        "diagnosis": Diagnosis(stage="prefill", summary="prefill", causes=[{"message": "max_num_seqs went up"}]),
    }
    return Alert(**{**fields, **other})


def ugly_alert() -> Alert:
    """Long, and with all that a receiver could trip over: markup, line ends, quotes, many labels."""
    ugly = '<!channel> & "quotes" [a](http://evil.test) *b*\r\nBcc: someone@evil.test\n\x00\u202e😀' * 400
    labels = {f"label-{number}": ugly for number in range(60)} | {"pool": ugly, "node": ugly, "empty": ""}
    return alert_made(labels=labels, summary=ugly, rule=ugly[:2000])
