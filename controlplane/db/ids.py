"""Row ids in URLs."""

from typing import Annotated

from fastapi import Path, Query

from controlplane.contract.row_id import MAX_ID

PathId = Annotated[int, Path(ge=1, le=MAX_ID, description="its id, as the list shows it")]
QueryId = Annotated[int | None, Query(ge=1, le=MAX_ID, description="only of the thing with this id")]
