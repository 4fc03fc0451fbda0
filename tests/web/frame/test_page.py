"""Pages and parts are named once and found by name; a page refuses what its address says wrongly to it alone."""

from datetime import UTC, datetime

import pytest

from controlplane.contract.errors import BadRequest, NotFound
from web.dashboard import PAGES
from web.frame.page import Pages, number
from web.frame.rendering import templates
from web.frame.selection import Selection, selection_of

NOW = datetime(2026, 3, 1, 12, 5, tzinfo=UTC)


def selected(**params: str) -> Selection:
    return selection_of(params, NOW)


@pytest.mark.slow
def test_every_page_and_part_has_its_template() -> None:
    for page in PAGES.by_name.values():
        templates.get_template(f"pages/{page.name}.html")
        assert len({part.name for part in page.parts}) == len(page.parts)
        for part in page.parts:
            templates.get_template(part.file)
            assert page.part(part.name) is part


def test_what_there_is_not_is_refused_by_name() -> None:
    with pytest.raises(NotFound, match="no page 'nothing'"):
        PAGES["nothing"]
    with pytest.raises(NotFound, match="no part 'nothing' of the page fleet"):
        PAGES["fleet"].part("nothing")


def test_a_part_that_the_address_does_not_open_is_none() -> None:
    explore = PAGES["explore"]
    compared = selection_of({"compare": "earlier:1h"}, NOW)
    assert explore.part_of(compared, "compared").name == "compared"
    with pytest.raises(NotFound, match="no part 'compared' of the page explore as this address has it"):
        explore.part_of(selection_of({}, NOW), "compared")
    with pytest.raises(AssertionError, match="two pages of one name"):
        Pages.of(PAGES["fleet"], PAGES["fleet"])


def test_a_number_in_an_address_is_one_or_there_is_no_such_thing() -> None:
    assert number(selected(alert="007"), "alert") == 7
    for wrong in ("", "x", "-1", "1.5", "9" * 19, "\N{ARABIC-INDIC DIGIT THREE}"):
        with pytest.raises(NotFound) as refused:
            number(selected(alert=wrong), "alert")
        assert refused.value.detail["field"] == "alert"


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("explore", {"metric": "nothing"}),
        ("explore", {"box": "1,2"}),
        ("requests", {"order": "best"}),
        ("requests", {"min": "x"}),
        ("requests", {"cursor": "x"}),
        ("fleet", {"sort": "colour"}),
        ("fleet", {"page": "0"}),
        ("fleet", {"figure": "x"}),
        ("configs", {"page": "x"}),
        ("configs", {"a": "0"}),
        ("ledger", {"cursor": "x"}),
    ],
)
def test_a_page_refuses_its_own_wrong_parameters_before_anything_is_asked(name: str, wrong: dict[str, str]) -> None:
    own = PAGES[name].own
    assert own is not None
    own(selected())
    with pytest.raises(BadRequest) as refused:
        own(selected(**wrong))
    assert refused.value.detail["field"] in wrong
