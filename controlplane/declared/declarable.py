"""What can be declared in files: the seam between the one reconciliation and the kinds of things.

Invariants of an implementation: `there` holds what can be declared, each with an id; `check` raises `BadRequest` that
begins with the field for whatever cannot be made; after `create` and `change` of a thing `there` has it with the fields
that `things` gave, after `remove` it has it no more; no method commits.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from pydantic import BaseModel
from sqlmodel import Session

from controlplane.contract.bodies.access import Scope
from controlplane.contract.bodies.alerts import Remedy
from controlplane.contract.errors import BadRequest
from controlplane.contract.on_call.declared_alerting import DeclaredKind
from controlplane.declared.reconciliation import Thing
from controlplane.keys import Keyring
from controlplane.ledger import Actor


class Named(Protocol):
    """What every wanted thing has."""

    origin: str

    def model_dump(self, *, mode: str = ..., exclude: set[str] = ...) -> dict[str, Any]: ...


W = TypeVar("W", bound=Named)

ALL = 1_000_000
"""Things of one kind: none may be missed."""


@dataclass(frozen=True)
class Hand:
    """Who applies it, when, and with what. public_url: the base of links that go out."""

    session: Session
    keyring: Keyring
    actor: Actor
    now: datetime
    public_url: str
    check_remedy: Callable[[Remedy], None]


class Declarable(ABC, Generic[W]):
    """The wanted things of one kind, and how they are made so."""

    kind: ClassVar[DeclaredKind]
    list_name: ClassVar[str]
    """Of the request's field that holds them."""
    identity: ClassVar[str] = "name"
    """The field that a thing is known by."""
    scope: ClassVar[Scope] = Scope.OPERATE
    """Whose it is to declare them: what is secret is told to differ, or not."""

    def __init__(self, wanted: Sequence[W], hand: Hand) -> None:
        self.wanted, self.hand = wanted, hand

    @property
    def place(self) -> str:
        """In the request."""
        return f"body.{self.list_name}"

    def problems(self, there: Sequence[Thing]) -> Iterator[dict[str, str]]:
        """What is wrong with those wanted: the field's place in the request, and the message."""
        for number, wanted in enumerate(self.wanted):
            try:
                self.check(wanted, there)
            except BadRequest as error:
                name, _, words = error.message.partition(": ")
                yield {"field": f"{self.place}.{number}.{name}", "message": words}

    def things(self, there: Sequence[Thing]) -> list[Thing]:
        """Those wanted, in their order."""
        return [self.thing(wanted, there) for wanted in self.wanted]

    @abstractmethod
    def there(self) -> list[Thing]:
        """Those that are there."""

    @abstractmethod
    def check(self, wanted: W, there: Sequence[Thing]) -> None:
        """Raises `BadRequest`."""

    @abstractmethod
    def thing(self, wanted: W, there: Sequence[Thing]) -> Thing:
        """As it will be there."""

    @abstractmethod
    def create(self, wanted: W) -> int:
        """Its number."""

    @abstractmethod
    def change(self, there: Thing, wanted: W) -> None: ...

    @abstractmethod
    def remove(self, there: Thing) -> None: ...


def fields_of(wanted: Named | BaseModel, *without: str) -> Mapping[str, Any]:
    """All fields as JSON has them, but for the origin and `without`."""
    return wanted.model_dump(mode="json", exclude={"origin", *without})
