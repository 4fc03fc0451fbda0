"""What a form says is what the API is asked; what is wrong is told at the form's own field."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.contract.bodies.access import Scope
from controlplane.contract.errors import BadRequest, Forbidden
from web.settings.form_fields import LASTS, Problem, problem_of, token_of

NOW = datetime(2026, 3, 1, tzinfo=UTC)
FIELDS = ("name", "scope", "owner", "lasts", "uses", "pools", "roles", "nodes")
PLAIN = {"name": " ci ", "scope": "read"}


def test_a_plain_token_leaves_to_the_api_what_the_form_does_not_say() -> None:
    wanted = token_of(PLAIN, NOW)
    assert (wanted.name, wanted.scope, wanted.owner, wanted.expires_at, wanted.never_expires) == (
        *("ci", Scope.READ, None, None, False),
    )


def test_rules_of_enrolment_are_read() -> None:
    rules = {"uses": "40", "pools": "chat, code", "roles": "trial", "nodes": "gpu-*"}
    wanted = token_of({"name": "racks", "scope": "enrol", "lasts": "never", **rules}, NOW)
    assert wanted.never_expires and wanted.enrolment is not None
    assert wanted.enrolment.model_dump() == {
        "uses": 40,
        "pools": ["chat", "code"],
        "roles": ["trial"],
        "nodes": "gpu-*",
    }


def test_a_length_is_from_now() -> None:
    assert token_of({**PLAIN, "lasts": "30"}, NOW).expires_at == NOW + timedelta(days=30)


@pytest.mark.parametrize(
    ("said", "field"),
    [
        ({"scope": "read"}, "name"),
        ({"name": "a", "scope": "everything"}, "scope"),
        ({**PLAIN, "lasts": "12"}, "lasts"),
        ({**PLAIN, "uses": "3"}, "uses"),
        ({"name": "a", "scope": "enrol", "uses": "many"}, "uses"),
        ({"name": "a", "scope": "enrol", "nodes": "a b"}, "nodes"),
    ],
)
def test_what_is_wrong_is_told_by_its_field(said: dict[str, str], field: str) -> None:
    with pytest.raises(BadRequest) as refused:
        token_of(said, NOW)
    assert refused.value.detail["field"] == field


@given(
    st.dictionaries(st.sampled_from(["name", "scope", "owner", "lasts", "uses", "pools", "roles", "nodes"]), st.text())
)
def test_whatever_is_sent_is_a_token_or_a_refusal(said: dict[str, str]) -> None:
    try:
        assert token_of(said, NOW).name
    except BadRequest as error:
        assert error.detail["field"] in FIELDS


def test_an_error_of_the_api_stands_at_the_forms_field() -> None:
    fields = {"name": "", "by": "", "nodes": ""}
    assert problem_of(Forbidden("no", field="Authorization"), fields, {"Authorization": "by"}) == Problem("no", "by")
    assert problem_of(BadRequest("no", field="enrolment.nodes"), fields, {}) == Problem("no", "nodes")
    assert problem_of(BadRequest("no", field="elsewhere"), fields, {}) == Problem("no", "")
    assert "never" in LASTS
