"""The fixed URLs are there, documented, and guarded."""

from collections.abc import Iterator

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from controlplane.auth import store as tokens
from controlplane.contract.bodies.access import Scope
from controlplane.contract.clock import utc_now
from controlplane.db.database import Database

OPEN = {
    *("get /healthz", "get /readyz", "post /api/v1/sessions", "get /api/v1/sign-in", "post /api/v1/sign-in/begin"),
    "post /api/v1/sign-in/finish",
    *("post /api/v1/callbacks/slack/{destination_id}", "post /api/v1/callbacks/pagerduty/{destination_id}"),
}
FIXED = {
    "/v1/metrics": "post",
    "/v1/traces": "post",
    "/v1/opamp": "post",
    "/healthz": "get",
    "/readyz": "get",
    "/api/v1/quantiles": "get",
    "/api/v1/scalars": "get",
    "/api/v1/rates": "get",
    "/api/v1/shares": "get",
    "/api/v1/heatmap": "get",
    "/api/v1/stream": "get",
    "/api/v1/exemplars": "get",
    "/api/v1/export": "get",
    "/api/v1/workload": "get",
    "/api/v1/requests": "get",
    "/api/v1/requests/{request_id}": "get",
    "/api/v1/request-facets": "get",
    "/api/v1/explain": "get",
    "/api/v1/compare": "get",
    "/api/v1/fleet": "get",
    "/api/v1/fleet/outline": "get",
    "/api/v1/node-figures": "get",
    "/api/v1/nodes": "get",
    "/api/v1/nodes/{node}": "get",
    "/api/v1/nodes/{node}/trial-config": "put",
    "/api/v1/enrol": "post",
    "/api/v1/configs": "get post",
    "/api/v1/configs/{number}": "get",
    "/api/v1/alerts": "get",
    "/api/v1/alert-rules": "get post",
    "/api/v1/alerting": "put",
    "/api/v1/destinations": "get post",
    "/api/v1/deliveries": "get",
    "/api/v1/incidents": "get",
    "/api/v1/incidents/{incident_id}": "get",
    "/api/v1/incidents/{incident_id}/post-mortem": "get",
    "/api/v1/routes": "get post",
    "/api/v1/inhibit-rules": "get post",
    "/api/v1/silences": "get post",
    "/api/v1/silences:preview": "post",
    "/api/v1/studies": "get post",
    "/api/v1/workloads": "get post",
    "/api/v1/workloads/{name}": "get delete",
    "/api/v1/workloads/{name}/traffic": "get",
    "/api/v1/prompt-sets": "get post",
    "/api/v1/prompt-sets/{name}": "get delete",
    "/api/v1/prompt-sets/{name}/text": "get",
    "/api/v1/studies/claim": "post",
    "/api/v1/whatif": "post",
    "/api/v1/advice": "get",
    "/api/v1/hardware": "post",
    "/api/v1/rollouts": "get post",
    "/api/v1/verdicts/{rollout_id}": "get",
    "/api/v1/verdicts": "post",
    "/api/v1/rollouts:blast-radius": "post",
    "/api/v1/rollouts/{rollout_id}/blast-radius": "get",
    "/api/v1/verdicts:flagger": "post",
    "/api/v1/rollout-hooks": "get put",
    "/api/v1/rollout-hooks/{hook_id}": "delete",
    "/api/v1/rollout-policies": "get put",
    "/api/v1/freezes": "get post",
    "/api/v1/pins": "get post",
    "/api/v1/onboarding": "get",
    "/api/v1/service": "get",
    "/api/v1/ledger": "get",
    "/api/v1/ledger/head": "get",
    "/api/v1/ledger/check": "get",
    "/api/v1/tokens": "get post",
    "/api/v1/tokens/self": "get",
    "/api/v1/sign-in-codes": "post",
    "/api/v1/sessions": "post",
    "/api/v1/sessions/self": "delete",
    "/api/v1/people": "get",
    "/api/v1/people/{person_id}": "delete",
    "/api/v1/people/{person_id}/data": "get",
    "/api/v1/sessions/{session_id}": "delete",
    "/api/v1/sign-in": "get",
    "/api/v1/sign-in/begin": "post",
    "/api/v1/sign-in/finish": "post",
}

BY_SCOPE = {
    "": {
        *(
            "get /api/v1/tokens/self",
            "get /api/v1/sessions/self",
            "delete /api/v1/sessions/self",
            "get /api/v1/sessions",
        ),
        *("delete /api/v1/sessions/{session_id}", "delete /api/v1/people/{person_id}"),
        "get /api/v1/people/{person_id}/data",
    },
    "read": {
        *("get /api/v1/stream", "get /api/v1/quantiles", "get /api/v1/rates", "get /api/v1/shares"),
        *("get /api/v1/heatmap", "get /api/v1/exemplars", "get /api/v1/scalars", "get /api/v1/workload"),
        *(
            "get /api/v1/requests/{request_id}",
            "get /api/v1/request-facets",
            "get /api/v1/explain",
            "get /api/v1/compare",
        ),
        *("get /api/v1/requests", "get /api/v1/export", "get /api/v1/nodes", "get /api/v1/nodes/{node}"),
        *("get /api/v1/fleet", "get /api/v1/fleet/outline", "get /api/v1/node-figures"),
        *("get /api/v1/configs", "get /api/v1/configs/{number}", "get /api/v1/alert-rules", "get /api/v1/alerts"),
        *(
            "get /api/v1/symptoms",
            "get /api/v1/rollout-hooks",
            "get /api/v1/rollout-policies",
            "get /api/v1/freezes",
            "get /api/v1/pins",
        ),
        *("get /api/v1/alerts/{alert_id}", "get /api/v1/destinations", "get /api/v1/deliveries"),
        *("get /api/v1/incidents", "get /api/v1/incidents/{incident_id}", "get /api/v1/routes"),
        "get /api/v1/incidents/{incident_id}/post-mortem",
        *("post /api/v1/silences:preview", "get /api/v1/inhibit-rules"),
        *("get /api/v1/silences", "get /api/v1/rollouts", "get /api/v1/rollouts/{rollout_id}"),
        *("post /api/v1/rollouts:blast-radius", "get /api/v1/rollouts/{rollout_id}/blast-radius"),
        *("get /api/v1/verdicts/{rollout_id}", "post /api/v1/verdicts", "post /api/v1/verdicts:flagger"),
        *("get /api/v1/studies", "get /api/v1/studies/{study_id}", "get /api/v1/studies/{study_id}/trials"),
        "get /api/v1/studies/{study_id}/plan",
        *("get /api/v1/workloads", "get /api/v1/workloads/{name}", "get /api/v1/workloads/{name}/traffic"),
        *("get /api/v1/prompt-sets", "get /api/v1/prompt-sets/{name}"),
        *(
            "get /api/v1/ledger",
            "get /api/v1/ledger/head",
            "get /api/v1/ledger/check",
            "get /api/v1/onboarding",
            "get /api/v1/service",
            "post /api/v1/sign-in-codes",
            "post /api/v1/destinations:preview",
            "post /api/v1/whatif",
            "get /api/v1/advice",
            "post /api/v1/hardware",
            "get /api/v1/events",
            "get /api/v1/inbound/alerts",
        ),
    },
    "operate": {
        *("put /api/v1/nodes/{node}/trial-config", "post /api/v1/nodes/{node}/cache-reset", "post /api/v1/configs"),
        *("post /api/v1/incidents/{incident_id}/acknowledge", "post /api/v1/incidents/{incident_id}/notes"),
        *("post /api/v1/incidents/{incident_id}/merge", "post /api/v1/incidents/{incident_id}/split"),
        "post /api/v1/incidents/{incident_id}/cause",
        *("post /api/v1/incidents/{incident_id}/resolve", "post /api/v1/routes"),
        *("put /api/v1/routes/{route_id}", "delete /api/v1/routes/{route_id}"),
        *("post /api/v1/alert-rules", "post /api/v1/destinations/{destination_id}/dead-letters:replay"),
        *("post /api/v1/alert-rules:dry-run", "put /api/v1/alerting"),
        *(
            "post /api/v1/inhibit-rules",
            "delete /api/v1/inhibit-rules/{rule_id}",
            "put /api/v1/inhibit-rules/{rule_id}",
        ),
        *("put /api/v1/alert-rules/{rule_id}", "delete /api/v1/alert-rules/{rule_id}", "post /api/v1/silences"),
        *("delete /api/v1/silences/{silence_id}", "post /api/v1/rollouts", "post /api/v1/rollouts/{rollout_id}/start"),
        *(
            f"post /api/v1/rollouts/{{rollout_id}}/{action}"
            for action in ("pause", "resume", "abort", "retry", "revert")
        ),
        *("post /api/v1/freezes", "post /api/v1/pins", "delete /api/v1/pins/{pin_id}"),
        *("post /api/v1/rollouts/{rollout_id}/cancel", "post /api/v1/studies", "post /api/v1/studies/claim"),
        *("post /api/v1/studies/{study_id}/heartbeat", "post /api/v1/studies/{study_id}/trials"),
        *("post /api/v1/studies/{study_id}/finish", "post /api/v1/studies/{study_id}/cancel"),
        *("post /api/v1/workloads", "delete /api/v1/workloads/{name}"),
        *("post /api/v1/prompt-sets", "delete /api/v1/prompt-sets/{name}", "get /api/v1/prompt-sets/{name}/text"),
        *("put /api/v1/studies/{study_id}/plan", "post /api/v1/studies/{study_id}/leases"),
        *(f"post /api/v1/studies/{{study_id}}/leases/{{token}}/{act}" for act in ("renew", "release", "trial")),
    },
    "admin": {
        *("delete /api/v1/nodes/{node}", "post /api/v1/destinations", "get /api/v1/tokens", "post /api/v1/tokens"),
        *(
            "delete /api/v1/destinations/{destination_id}",
            "put /api/v1/destinations/{destination_id}",
            "post /api/v1/destinations/{destination_id}/test",
        ),
        *("delete /api/v1/tokens/{token_id}", "post /api/v1/nodes/{node}/release", "get /api/v1/people"),
        "post /api/v1/rollouts/{rollout_id}/approve",
        *("put /api/v1/rollout-policies", "delete /api/v1/rollout-policies/{policy_id}"),
        *("put /api/v1/rollout-hooks", "delete /api/v1/rollout-hooks/{hook_id}"),
        "delete /api/v1/freezes/{freeze_id}",
    },
    "agent": {"post /v1/history", "post /v1/metrics", "post /v1/traces", "post /v1/opamp"},
    "enrol": {"post /api/v1/enrol"},
    "post": {"post /api/v1/events", "post /api/v1/inbound/alertmanager", "post /api/v1/inbound/grafana"},
}
"""The scope that each operation wants, once more: a route opened wider by mistake must not pass by its own document."""

MAY = {
    "read": ["", "read"],
    "operate": ["", "read", "operate", "post"],
    "admin": ["", "read", "operate", "admin", "agent", "enrol", "post"],
    "post": ["", "post"],
    "agent": ["", "agent"],
    "enrol": ["", "enrol"],
}


@pytest.mark.parametrize("path", FIXED)
def test_the_document_lists_every_fixed_url(app: FastAPI, path: str) -> None:
    document = app.openapi()
    assert path in document["paths"]
    for method in FIXED[path].split():
        operation = document["paths"][path][method]
        assert operation["tags"], f"{method} {path} stands under no heading"


def test_the_document_has_a_title_and_a_page(app: FastAPI, http: TestClient) -> None:
    document = app.openapi()
    assert document["info"]["title"] == "Tailwright"
    assert document["info"]["description"]
    assert http.get("/docs").status_code == 200


def test_prometheus_has_its_page(http: TestClient) -> None:
    answer = http.get("/metrics")
    assert answer.status_code == 200
    assert answer.headers["Content-Type"].startswith("text/plain")


def operations(app: FastAPI) -> Iterator[tuple[str, str, str]]:
    """Method, path and a URL of things that are not there, of all but what anybody may ask."""
    for path, found in app.openapi()["paths"].items():
        if path.startswith("/failing"):
            continue
        url = "/".join("999" if part.startswith("{") else part for part in path.split("/"))
        for method in found:
            if f"{method} {path}" not in OPEN:
                yield method, path, url


@pytest.mark.slow
def test_everything_but_health_needs_a_token(app: FastAPI) -> None:
    stranger = TestClient(app, raise_server_exceptions=False)
    for method, path, url in operations(app):
        answer = stranger.request(method, url)
        assert answer.status_code == 401, f"{method} {path}: {answer.status_code} {answer.text}"


def answers(app: FastAPI, scope: str, database: Database) -> dict[str, int]:
    """What a token of this scope alone is answered at each operation, without a body, of things that are not there."""
    with database.session() as session:
        _, text = tokens.issue(session, name=f"of {scope}", scope=Scope(scope), now=utc_now())
    client = TestClient(app, raise_server_exceptions=False, headers={"Authorization": f"Bearer {text}"})
    found = {}
    for method, path, url in operations(app):
        # A stream would not end.
        params = {"metric": "nothing"} if path == "/api/v1/stream" else None
        found[f"{method} {path}"] = client.request(method, url, params=params).status_code
    return found


@pytest.mark.slow
@pytest.mark.parametrize("scope", MAY)
def test_each_scope_may_do_what_is_said_of_it_and_nothing_else(app: FastAPI, scope: str) -> None:
    found = answers(app, scope, app.state.service.database)
    listed = {operation for of_scope in BY_SCOPE.values() for operation in of_scope}
    assert set(found) == listed, "a route without a scope in this test, or the other way round"
    allowed = {operation for needed in MAY[scope] for operation in BY_SCOPE[needed]}
    assert {operation for operation, status in found.items() if status == 403} == listed - allowed
