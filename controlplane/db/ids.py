"""Row ids in URLs: whole numbers that an INTEGER column of every database can hold."""

from typing import Annotated

from fastapi import Path, Query

MAX_ID = 2**31 - 1

PathId = Annotated[int, Path(ge=1, le=MAX_ID, description="its id, as the list shows it")]
QueryId = Annotated[int | None, Query(ge=1, le=MAX_ID, description="only of the thing with this id")]
