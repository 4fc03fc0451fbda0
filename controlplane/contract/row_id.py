"""Row ids: whole numbers from one, that an INTEGER column of every database can hold."""

from typing import Annotated

from pydantic import Field

MAX_ID = 2**31 - 1

RowId = Annotated[int, Field(ge=1, le=MAX_ID)]
"""An id in a body."""
