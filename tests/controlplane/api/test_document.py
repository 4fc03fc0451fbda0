"""The API's document is complete and true: every field, every answer, every scope, every example."""

from collections.abc import Iterator
from typing import Any, get_args

import pytest
from fastapi import FastAPI
from fastapi.dependencies.models import Dependant
from fastapi.routing import RouteContext, iter_route_contexts
from fastapi.testclient import TestClient

from controlplane.alerts.checks import check_rule
from controlplane.api.body_examples import EXAMPLES
from controlplane.api.error_examples import EXAMPLES as ERRORS
from controlplane.api.json_body import json_body
from controlplane.api.json_kinds import refuse_wrong_kinds
from controlplane.api.route_errors import SHOWN
from controlplane.api.storable_text import refuse_unstorable_text
from controlplane.api.unknown_fields import refuse_unknown_fields
from controlplane.auth.guard import Needs
from controlplane.contract.bodies.access import Scope
from controlplane.contract.bodies.alerts import AlertRuleCreate, Condition
from controlplane.contract.errors import Forbidden, TailwrightError
from controlplane.telemetry.http.receiver import Receiver
from tests.controlplane.api.raised_errors import raised_by

CALLBACKS = {f"post /api/v1/callbacks/{channel}/{{destination_id}}" for channel in ("slack", "pagerduty")}
SAID_BY_ITS_BODY = {"post /api/v1/sessions", "post /api/v1/sign-in/finish", *CALLBACKS}
"""Who asks: a secret in it, or a signature over it."""
OPEN = {"get /healthz", "get /readyz", "get /api/v1/sign-in", "post /api/v1/sign-in/begin", *SAID_BY_ITS_BODY}
NOT_OURS = "/failing"  # A route of the tests.
READ_JSON = {refuse_unstorable_text, refuse_unknown_fields, refuse_wrong_kinds}
"""Of every route; `json_body`, which they call, looks at nothing where a route takes no JSON (see its own tests)."""


@pytest.fixture(scope="module")
def document(app: FastAPI) -> dict[str, Any]:
    return app.openapi()


def operations(document: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, found in document["paths"].items():
        if not path.startswith(NOT_OURS):
            for method, operation in found.items():
                yield path, method, operation


def routes(app: FastAPI) -> Iterator[RouteContext]:
    for route in iter_route_contexts(app.routes):
        if getattr(route, "include_in_schema", False) and not (route.path or "").startswith(NOT_OURS):
            yield route


def test_every_field_is_described(document: dict[str, Any]) -> None:
    gaps = [
        f"{name}.{field}"
        for name, schema in document["components"]["schemas"].items()
        for field, of in schema.get("properties", {}).items()
        if not of.get("description")
    ]
    assert gaps == [], "give each a Field(description=...): what it is, in which unit"


def test_every_model_is_described(document: dict[str, Any]) -> None:
    assert [name for name, schema in document["components"]["schemas"].items() if not schema.get("description")] == []


def test_bodies_take_no_other_fields(document: dict[str, Any]) -> None:
    schemas = document["components"]["schemas"]
    for name in (*EXAMPLES, "RegressionCondition", "Limit", "KnobRange"):
        assert schemas[name]["additionalProperties"] is False, name
    assert "additionalProperties" not in schemas["Alert"]


def test_every_operation_and_parameter_is_described(document: dict[str, Any]) -> None:
    for path, method, operation in operations(document):
        own = operation["description"].partition("Needs a token")[0].strip()
        assert own, f"{method} {path}: its function needs a docstring"
        for parameter in operation.get("parameters", ()):
            assert parameter.get("description"), f"{method} {path}: {parameter['name']}"
            assert {"type": "null"} not in parameter["schema"].get("anyOf", ()), "no address can say null"


def test_headings_and_names_are_there_once(document: dict[str, Any]) -> None:
    known = {tag["name"] for tag in document["tags"]}
    names = []
    for path, method, operation in operations(document):
        assert len(operation["tags"]) == 1, f"{method} {path} stands under {operation['tags']}"
        assert set(operation["tags"]) <= known
        names.append(operation["operationId"])
    assert len(names) == len(set(names))


def test_every_error_has_the_models_form_and_an_example(document: dict[str, Any]) -> None:
    for path, method, operation in operations(document):
        for status, response in operation["responses"].items():
            if status < "400" or path == "/readyz":
                continue
            name = response["$ref"].removeprefix("#/components/responses/")
            shown = document["components"]["responses"][name]
            media = shown["content"]["application/json"]
            assert media["schema"] == {"$ref": "#/components/schemas/ErrorAnswer"}, f"{method} {path} {status}"
            assert media["example"] == next(one.body() for one in ERRORS if one.status == int(status))
    assert "422" not in str([operation["responses"].keys() for _, _, operation in operations(document)])
    assert {type(example) for example in ERRORS} == set(SHOWN)


def test_scopes_are_told(document: dict[str, Any], app: FastAPI) -> None:
    scheme = document["components"]["securitySchemes"]["bearer"]
    assert (scheme["type"], scheme["scheme"]) == ("http", "bearer")
    for path, method, operation in operations(document):
        if f"{method} {path}" in OPEN:
            assert "security" not in operation
            assert ("401" in operation["responses"]) is (f"{method} {path}" in SAID_BY_ITS_BODY)
            continue
        (needed,) = operation["security"]
        assert {"401", "503"} <= set(operation["responses"]), f"{method} {path}"
        if needed["bearer"]:
            assert set(needed["bearer"]) <= {scope.value for scope in Scope}
            assert "403" in operation["responses"]
            assert f"`{needed['bearer'][0]}`" in operation["description"]


def dependencies(dependant: Dependant) -> Iterator[Dependant]:
    yield dependant
    for inner in dependant.dependencies:
        yield from dependencies(inner)


@pytest.mark.slow
def test_every_error_that_a_route_raises_is_documented(app: FastAPI, document: dict[str, Any]) -> None:
    raising = 0
    for route in routes(app):
        raised: set[type[TailwrightError]] = set()
        for dependency in dependencies(route.dependant):
            call: Any = dependency.call
            if isinstance(call, Needs):
                raised |= raised_by(Needs.__call__) - (set() if call.scope else {Forbidden})
            elif call in READ_JSON:
                raised |= raised_by(call) - (set() if route.body_field is not None else raised_by(json_body))
            else:
                raised |= raised_by(call)
        if route.path in ("/v1/metrics", "/v1/traces"):
            raised |= raised_by(Receiver._answer) | raised_by(Receiver._body)
        for method in route.methods or ():
            answers = document["paths"][route.path_format][method.lower()]["responses"]
            for cls in raised:
                raising += 1
                assert str(cls.status) in answers, f"{method} {route.path} raises {cls.__name__}: declare it"
    assert raising > 150


def test_the_walk_through_code_sees_what_routes_raise(app: FastAPI) -> None:
    by_name = {
        route.name: {cls.__name__ for cls in raised_by(route.endpoint)} for route in routes(app) if route.endpoint
    }
    assert {"NotFound", "Conflict"} <= by_name["start_rollout"]
    assert {"NotFound"} <= by_name["delete_rule"]
    assert {"UnknownKnob", "KnobOutOfRange"} <= by_name["create_study"]
    assert {"Unsupported", "TooLarge"} <= by_name["opamp_http"]


def test_every_json_body_has_examples(document: dict[str, Any]) -> None:
    shown = set()
    for path, method, operation in operations(document):
        content = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
        reference = content.get("schema", {}).get("$ref")
        if reference is None:
            continue
        shown.add(reference.rpartition("/")[2])
        assert content.get("examples"), f"{method} {path}: give {reference} an example in body_examples.py"
    assert shown == set(EXAMPLES)


def test_alert_rules_have_an_example_of_each_kind() -> None:
    rules = [rule for rule in EXAMPLES["AlertRuleCreate"].values() if isinstance(rule, AlertRuleCreate)]
    for rule in rules:
        check_rule(rule)
    kinds = {type(rule.condition) for rule in rules}
    assert kinds == set(get_args(Condition))


@pytest.mark.parametrize("title", EXAMPLES["AlertRuleCreate"])
def test_examples_of_rules_are_taken(http: TestClient, document: dict[str, Any], title: str) -> None:
    content = document["paths"]["/api/v1/alert-rules"]["post"]["requestBody"]["content"]["application/json"]
    answer = http.post("/api/v1/alert-rules", json=content["examples"][title]["value"])
    assert answer.status_code == 201, answer.text


def test_what_is_served_is_the_document(http: TestClient, document: dict[str, Any]) -> None:
    assert http.get("/openapi.json").json() == document


def test_the_document_is_completed_once(app: FastAPI) -> None:
    assert app.openapi() is app.openapi()
