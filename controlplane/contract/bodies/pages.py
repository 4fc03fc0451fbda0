"""A page of a collection: `{"items": [...], "next": cursor | null}`."""

from typing import Generic, TypeVar

from pydantic import BaseModel, ConfigDict, Field

Item = TypeVar("Item")


class Page(BaseModel, Generic[Item]):
    """`next` is passed back as `?cursor=`; null on the last page."""

    # Pydantic gives the pages of each model no description of their own.
    model_config = ConfigDict(json_schema_extra={"description": "`next` is passed back as `?cursor=`; null: the end."})

    items: list[Item] = Field(description="the page's items")
    next: str | None = Field(default=None, description="pass it as `?cursor=` for the next page; null on the last one")
