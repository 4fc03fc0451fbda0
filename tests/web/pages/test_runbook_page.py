"""A runbook is found by its symptom's id, and no other name opens one."""

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast

import pytest

from controlplane.alerts.symptoms.runbooks import symptom_view
from controlplane.alerts.symptoms.symptom_catalogue import catalogue
from controlplane.contract.errors import NotFound
from web.frame.rendering import templates
from web.frame.selection import Selection
from web.pages.runbook_page import whole

CLIENT = cast(Any, SimpleNamespace(symptoms=lambda: [symptom_view(one) for one in catalogue().values()]))


def opened(name: str) -> Any:
    return whole(CLIENT, Selection(datetime(2030, 1, 1, tzinfo=UTC), own={"symptom": name}))["symptom"]


def test_it_says_when_the_symptom_fires_and_what_to_do() -> None:
    found = opened("preemptions")
    assert found.title == "Requests are set back" and "`preemptions` over `requests`" in found.judged_by


def test_names_between_back_ticks_are_code_and_nothing_else_is_markup() -> None:
    ticked = templates.get_template("components/ticked.html").module.ticked  # type: ignore[attr-defined]
    assert ticked("`a<b` over `c` & more") == "<code>a&lt;b</code> over <code>c</code> &amp; more"
    for entry in catalogue():
        found = opened(entry)
        assert "`" not in "".join(
            ticked(one) for one in (found.meaning, found.runbook, found.judged_by, *found.look_at)
        )


def test_another_name_opens_none() -> None:
    with pytest.raises(NotFound, match="no symptom 'kv_full'"):
        opened("kv_full")
