"""A page of a collection of which some items cannot be read: the good ones, and a name for each of the others.

Guarantee: one bad item costs that item alone; it is named in the log the first time, counted each time.
"""

import json
import logging
from collections.abc import Iterable
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from controlplane.contract.bodies.pages import Page

log = logging.getLogger(__name__)

M = TypeVar("M", bound=BaseModel)

NAMED_BY = ("node", "id", "number", "name", "request_id")
REMEMBERED = 1000


class LeftOut:
    """What one client could not read. `count`: how often; `messages`: each different one once, in order."""

    def __init__(self) -> None:
        self.count = 0
        self.messages: dict[str, None] = {}

    def note(self, message: str) -> None:
        self.count += 1
        if message in self.messages:
            return
        if len(self.messages) < REMEMBERED:
            self.messages[message] = None
        log.warning("%s", message)


def salvaged(model: type[M], path: str, content: bytes, whole: ValidationError, left_out: LeftOut) -> Page[M]:
    """The page's good items. Raises `whole`, the page's own error, where it is no page at all."""
    try:
        said = json.loads(content)
    except (ValueError, RecursionError):
        raise whole from None
    if not isinstance(said, dict) or not isinstance(said.get("items"), list):
        raise whole
    following = said.get("next")
    if following is not None and not isinstance(following, str):
        raise whole
    good = []
    for place, item in enumerate(said["items"]):
        try:
            good.append(model.model_validate_json(json.dumps(item)))
        except ValidationError as error:
            left_out.note(f"{path}: {_name(item, place)} is left out, it cannot be read: {_reasons(error.errors())}")
    return Page[M](items=good, next=following)


def _name(item: Any, place: int) -> str:
    for field in NAMED_BY:
        if isinstance(item, dict) and isinstance(item.get(field), str | int):
            return f"{field} {str(item[field])[:128]!r}"
    return f"item {place}"


def _reasons(errors: Iterable[Any]) -> str:
    return "; ".join(f"{'.'.join(str(part) for part in error['loc'])}: {error['msg']}" for error in errors)[:500]
