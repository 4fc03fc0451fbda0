"""The webhook's body: Alertmanager's webhook format, version "4", with our diagnosis beside it.

Existing receivers read it as they are (Alertmanager documentation, "webhook_config"); what they do not know stands
under the extra key "tailwright". One body tells of one alert. An update of an open alert is one more "firing" of it:
the format has no other word, and repeats it by itself; what changed stands in the annotation "update" and in
"tailwright".
"""

import json
from collections.abc import Mapping

from controlplane.contract.bodies.alerts import Alert, AlertState
from controlplane.contract.duration_text import duration_text

NEVER = "0001-01-01T00:00:00Z"
"""How Alertmanager writes an end that is not known yet."""


def labels_of(alert: Alert) -> dict[str, str]:
    """The labels others see and silences match: the alert's own, its rule's name and its severity."""
    return labels_told(alert.labels, alert.rule, alert.severity.value)


def labels_told(labels: Mapping[str, str], rule: str, severity: str) -> dict[str, str]:
    """As `labels_of`, of the columns of an alert's row."""
    return {**labels, "alertname": rule, "rule": rule, "severity": severity}


def idempotency_key(alert: Alert, status: str) -> str:
    """The same for every attempt to tell the same thing: `fingerprint:status:started`."""
    return f"{alert.fingerprint}:{status}:{alert.started_at.isoformat()}"


def update_key(alert: Alert) -> str:
    """As `idempotency_key`, one for each update: receivers that drop what they have seen must not drop this."""
    return f"{idempotency_key(alert, 'updated')}:{len(alert.updates)}"


def body(
    alert: Alert, status: str, receiver: str, external_url: str, *, title: str | None = None, text: str | None = None
) -> str:
    """The JSON text to send. `status` is "firing" or "resolved". title, text: of the destination's templates."""
    labels = labels_of(alert)
    written = {name: value for name, value in (("title", title), ("description", text)) if value is not None}
    annotations = {**annotations_of(alert), **_runbook(alert, external_url), **written}
    # A test's alert is made up (id 0) and has no page of its own: the list is where a real one would stand.
    link = f"{external_url}/alerts/{alert.id}" if alert.id else alert.link or f"{external_url}/alerts"
    resolved = status == AlertState.RESOLVED.value and alert.resolved_at is not None
    message = {
        "version": "4",
        "groupKey": f'{{}}:{{fingerprint="{alert.fingerprint}"}}',
        "truncatedAlerts": 0,
        "status": status,
        "receiver": receiver,
        "groupLabels": {"alertname": alert.rule},
        "commonLabels": labels,
        "commonAnnotations": annotations,
        "externalURL": external_url,
        "alerts": [
            {
                "status": status,
                "labels": labels,
                "annotations": annotations,
                "startsAt": alert.started_at.isoformat(),
                "endsAt": alert.resolved_at.isoformat() if resolved and alert.resolved_at else NEVER,
                "generatorURL": link,
                "fingerprint": alert.fingerprint,
            }
        ],
        "tailwright": alert.model_dump(mode="json"),
    }
    return json.dumps(message, ensure_ascii=False, separators=(",", ":"))


def annotations_of(alert: Alert) -> dict[str, str]:
    """What a person reads first, as text: Alertmanager's annotations are strings."""
    found: dict[str, str | None] = {
        "summary": alert.summary,
        "value": None if alert.value is None else duration_text(alert.value),
        "threshold": None if alert.threshold is None else duration_text(alert.threshold),
        "error_rate": _text(alert.evidence.get("error_rate")),
        "accuracy": _text(alert.evidence.get("accuracy")),
        "stage": None if alert.diagnosis is None else alert.diagnosis.stage,
        "update": alert.updates[-1].summary if alert.updates else None,
        "causes": None
        if alert.diagnosis is None
        else "; ".join(str(cause["message"]) for cause in alert.diagnosis.causes),
        "remedy": "; ".join(f"{step.title}: {step.why}" for step in alert.remedies),
    }
    return {name: value for name, value in found.items() if value}


def _runbook(alert: Alert, external_url: str) -> dict[str, str]:
    """Alertmanager's usual name for it: the page of the symptom that the alert is about."""
    symptom = alert.labels.get("symptom")
    return {} if symptom is None else {"runbook_url": f"{external_url}/runbooks/{symptom}"}


def _text(value: object) -> str | None:
    if isinstance(value, Mapping):
        return str(value.get("statement", "")) or None
    return None if value is None else str(value)
