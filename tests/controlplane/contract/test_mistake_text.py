"""The words of a check, with nothing of pydantic's before them."""

from typing import Annotated, Any, Literal

import pytest
from pydantic import AfterValidator, Field, TypeAdapter, ValidationError

from controlplane.contract.mistake_text import mistake_text, place_of


def even(value: int) -> int:
    if value % 2:
        raise ValueError("wants an even number")
    return value


Even = TypeAdapter(Annotated[int, Field(ge=0), AfterValidator(even)])


@pytest.mark.parametrize(
    ("pattern", "said"),
    [
        (r"^(https?|smtps?|smtp\+plain)://", "http://, https://, smtp://, smtps:// or smtp+plain://"),
        ("^https?://", "http:// or https://"),
        ("^https://", "https://"),
    ],
)
def test_how_a_url_begins_is_told_in_words(pattern: str, said: str) -> None:
    with pytest.raises(ValidationError) as caught:
        TypeAdapter(Annotated[str, Field(pattern=pattern)]).validate_python("hooks.example/x")
    assert [mistake_text(one) for one in caught.value.errors()] == [f"wants to begin with {said}"]


def test_any_other_form_is_told_as_it_is() -> None:
    with pytest.raises(ValidationError) as caught:
        TypeAdapter(Annotated[str, Field(pattern="^[a-z]+$")]).validate_python("7")
    assert [mistake_text(one) for one in caught.value.errors()] == ["wants text of the form ^[a-z]+$"]


@pytest.mark.parametrize(
    ("value", "said"),
    [(3, "wants an even number"), (-2, "Input should be greater than or equal to 0")],
)
def test_only_what_the_check_said(value: int, said: str) -> None:
    with pytest.raises(ValidationError) as caught:
        Even.validate_python(value)
    assert [mistake_text(one) for one in caught.value.errors()] == [said]


@pytest.mark.parametrize(
    ("value", "place", "said"),
    [
        ({"tfft": 1}, ["tfft"], "Input should be 'ttft' or 'tpot' (did you mean 'ttft'?)"),
        ({"TPOT": 1}, ["TPOT"], "Input should be 'ttft' or 'tpot' (did you mean 'tpot'?)"),
        ({"queue": 1}, ["queue"], "Input should be 'ttft' or 'tpot'"),
        ({"ttft": "nxt"}, ["ttft"], "Input should be 'next' or 'last' (did you mean 'next'?)"),
    ],
)
def test_of_a_few_the_nearest_is_told_and_a_wrong_name_is_its_own_place(
    value: dict[str, Any], place: list[str], said: str
) -> None:
    with pytest.raises(ValidationError) as caught:
        TypeAdapter(dict[Literal["ttft", "tpot"], Literal["next", "last"]]).validate_python({"ttft": "next"} | value)
    mistake = caught.value.errors()[0]
    assert (place_of(mistake), mistake_text(mistake)) == (place, said)
