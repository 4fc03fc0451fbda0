"""The words of a check, with nothing of pydantic's before them."""

from typing import Annotated

import pytest
from pydantic import AfterValidator, Field, TypeAdapter, ValidationError

from controlplane.contract.mistake_text import mistake_text


def even(value: int) -> int:
    if value % 2:
        raise ValueError("wants an even number")
    return value


Even = TypeAdapter(Annotated[int, Field(ge=0), AfterValidator(even)])


@pytest.mark.parametrize(
    ("value", "said"),
    [(3, "wants an even number"), (-2, "Input should be greater than or equal to 0")],
)
def test_only_what_the_check_said(value: int, said: str) -> None:
    with pytest.raises(ValidationError) as caught:
        Even.validate_python(value)
    assert [mistake_text(one) for one in caught.value.errors()] == [said]
