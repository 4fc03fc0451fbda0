"""Cursor pagination over integer ids, newest first."""

from collections.abc import Sequence
from typing import Annotated, Protocol, TypeVar

from fastapi import Query

from controlplane.contract.bodies.pages import Page

Limit = Annotated[int, Query(ge=1, le=500, description="items per page")]
PoolFilter = Annotated[str | None, Query(description="only of this pool")]
Cursor = Annotated[int | None, Query(ge=1, le=2**63 - 1, description="`next` of the page before")]


class HasId(Protocol):
    """Anything listed by its integer id."""

    @property
    def id(self) -> int: ...


Item = TypeVar("Item", bound=HasId)


def page_of(items: Sequence[Item], limit: int) -> "Page[Item]":
    """A page of at most `limit` items from a list that was asked for `limit + 1`; the cursor is the last id shown."""
    shown = list(items[:limit])
    return Page(items=shown, next=str(shown[-1].id) if len(items) > limit else None)
