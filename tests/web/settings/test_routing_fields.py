"""What a form of a route or an inhibit rule says is what the API is asked, and what is there fills its form."""

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.contract.bodies.alerts import InhibitRule, Silenced
from controlplane.contract.errors import BadRequest
from controlplane.contract.on_call.incidents import Route, RouteCreate
from web.settings.routing_fields import (
    inhibit_rule_said,
    is_written,
    route_said,
    silenced_of,
    wanted_inhibit_rule,
    wanted_route,
)

NOW = datetime(2026, 3, 1, tzinfo=UTC)
KEPT: dict[str, Any] = {"id": 1, "created_at": NOW}
PLAIN = {"name": "chat", "owner": "ada"}
SIDES = {"name": "pages", "source": "severity=page", "target": "severity=ticket"}
WORDS = st.text("abc.-_/:0é", min_size=1, max_size=6)


def test_a_route_leaves_to_the_api_what_the_form_does_not_say() -> None:
    assert wanted_route(PLAIN) == RouteCreate(name="chat", owner="ada", group_by=[])
    full = {**PLAIN, "matchers": " pool=chat \n\nseverity = page", "group_by": "pool, node", "position": " 7 "}
    assert wanted_route(full) == RouteCreate(
        name="chat",
        owner="ada",
        matchers={"pool": "chat", "severity": "page"},
        group_by=["pool", "node"],
        position=7,
    )


def test_labels_and_patterns_stand_on_lines() -> None:
    found = silenced_of("pool=~chat-{1,2}\nexpr=a=b\r\n", "source")
    assert found == Silenced(matchers={"expr": "a=b"}, patterns={"pool": "chat-{1,2}"})


@pytest.mark.parametrize(
    ("said", "field"),
    [
        ({**PLAIN, "name": " "}, "name"),
        ({**PLAIN, "owner": ""}, "owner"),
        ({**PLAIN, "matchers": "pool"}, "matchers"),
        ({**PLAIN, "matchers": "=chat"}, "matchers"),
        ({**PLAIN, "matchers": "pool=a\npool=b"}, "matchers"),
        ({**PLAIN, "matchers": "pool=~a"}, "matchers"),
        ({**PLAIN, "position": "first"}, "position"),
    ],
)
def test_what_is_wrong_with_a_route_is_told_by_its_field(said: dict[str, str], field: str) -> None:
    with pytest.raises(BadRequest) as refused:
        wanted_route(said)
    assert refused.value.detail["field"] == field


@pytest.mark.parametrize(
    ("more", "field"), [({"source": ""}, "source"), ({"target": "severity"}, "target"), ({"name": ""}, "name")]
)
def test_what_is_wrong_with_an_inhibit_rule_is_told_by_its_field(more: dict[str, str], field: str) -> None:
    with pytest.raises(BadRequest) as refused:
        wanted_inhibit_rule({**SIDES, **more})
    assert refused.value.detail["field"] == field


@given(
    matchers=st.dictionaries(WORDS, WORDS, max_size=3),
    group_by=st.lists(WORDS, max_size=2),
    position=st.integers(0, 1_000_000),
)
def test_what_a_form_says_of_words_is_read_as_it_was(
    matchers: dict[str, str], group_by: list[str], position: int
) -> None:
    route = Route(name="n", owner="ada", matchers=matchers, group_by=group_by, position=position, **KEPT)
    assert is_written(route)
    assert wanted_route(route_said(route)).model_dump() == route.model_dump(include=set(RouteCreate.model_fields))


def test_what_a_form_cannot_say_is_not_offered() -> None:
    plain = Route(**PLAIN, matchers={"pool": "chat"}, **KEPT)
    assert is_written(plain)
    for value in ("~chat", "chat ", "a\nb"):
        assert not is_written(plain.model_copy(update={"matchers": {"pool": value}}))
    rule = InhibitRule(
        name="x", source=Silenced(patterns={"pool": "a|b"}), target=Silenced(matchers={"kind": "drift"}), **KEPT
    )
    assert is_written(rule) and inhibit_rule_said(rule)["source"] == "pool=~a|b"
    assert not is_written(rule.model_copy(update={"equal": ["a,b"]}))
