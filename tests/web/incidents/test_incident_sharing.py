"""An incident's page over a real service: another incident taken in, and alerts silenced by pattern after a look."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from controlplane.contract.bodies.access import Scope, TokenCreate
from tests.processes import wait_for
from tests.web.settings.test_settings_page import form_of, signed_in


@pytest.fixture(scope="module")
def incidents(bare: Any) -> list[int]:
    """Two, of alerts of another system that have nothing to do with each other."""
    alerts = [{"status": "firing", "labels": {"alertname": name, "team": "web"}} for name in ("Disk", "Link")]
    with bare.client() as client:
        token = client.create_token(TokenCreate(name="am", scope=Scope.POST)).token
        path, headers = f"{bare.url}/api/v1/inbound/alertmanager", {"Authorization": f"Bearer {token}"}
        body = {"version": "4", "status": "firing", "alerts": alerts}
        assert httpx.post(path, json=body, headers=headers).status_code == 200
        wait_for("each is an incident", lambda: len(client.incidents(open=True)) == 2)
        return sorted(one.id for one in client.incidents(open=True))


@pytest.fixture
def operator(bare: Any) -> Iterator[httpx.Client]:
    with bare.client() as client:
        made = client.create_token(TokenCreate(name="on call", scope=Scope.OPERATE))
    yield from signed_in(bare, made.token)


def test_alerts_are_silenced_by_pattern_after_a_look(operator: httpx.Client, bare: Any, incidents: list[int]) -> None:
    path, form = f"/incidents/{incidents[0]}/silence-like", {"form": form_of(operator)}
    said = {"alerts_with": "team=~we. own\nseverity=ticket", "lasts": "8h", "reason": "a move"}
    shown = operator.post(path, data={**said, **form, "act": "preview"})
    assert shown.status_code == 200 and "No alert that is open now" in shown.text, "others' alerts tell nobody"
    assert "team=~we. own\nseverity=ticket</textarea>" in shown.text and 'value="a move"' in shown.text
    for changed, field in (
        ({"alerts_with": "team=~(we"}, "alerts_with"),
        ({"alerts_with": ""}, "alerts_with"),
        ({"reason": " "}, "reason"),
        ({"lasts": "forever"}, "lasts"),
    ):
        refused = operator.post(path, data={**said, **form, **changed})
        assert refused.status_code == 400 and f'id="about-{field}" class="bad"' in refused.text, changed
    with bare.client() as client:
        assert client.silences() == []
        assert operator.post(path, data={**said, **form}).status_code == 303
        (made,) = client.silences()
        assert (made.matchers, made.patterns, made.comment) == ({"severity": "ticket"}, {"team": "we. own"}, "a move")
        assert "Silenced for 8h, severity=ticket, team=~we. own: a move" in str(client.incident(incidents[0]).notes)
        client.end_silence(made.id)
    assert operator.post(path, data={**said, "form": "0" * 64}).status_code == 403
    assert operator.get(path).headers["Location"] == f"/incidents/{incidents[0]}"


def test_an_incident_takes_another_in(operator: httpx.Client, bare: Any, incidents: list[int]) -> None:
    kept, given = incidents
    form = {"form": form_of(operator)}
    page = operator.get(f"/incidents/{kept}").text
    assert f'action="/incidents/{kept}/merge"' in page and f'<option value="{given}">' in page
    assert operator.post(f"/incidents/{kept}/merge", data={"other": given, "form": "0" * 64}).status_code == 403
    assert operator.post(f"/incidents/{kept}/merge", data={**form, "other": given}).status_code == 303
    with bare.client() as client:
        assert len(client.incident(kept).members) == 2 and client.incident(given).merged_into == kept
    assert f'action="/incidents/{kept}/merge"' not in operator.get(f"/incidents/{kept}").text, "none is left"
