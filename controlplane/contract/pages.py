"""A page of a collection: `{"items": [...], "next": cursor | null}`."""

from typing import Generic, TypeVar

from pydantic import BaseModel

Item = TypeVar("Item")


class Page(BaseModel, Generic[Item]):
    """`next` is passed back as `?cursor=`; null on the last page."""

    items: list[Item]
    next: str | None = None
