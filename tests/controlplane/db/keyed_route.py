"""What every route that takes an `Idempotency-Key` keeps: its conformance suite.

Use it by a class that inherits `KeyedConformance` and gives the fixture `route`.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta
from threading import Barrier
from typing import Any, Protocol

from controlplane.contract.errors import Conflict
from controlplane.db.keyed_answers import HEADER, KEPT


class Answered(Protocol):
    @property
    def status_code(self) -> int: ...

    def json(self) -> Any: ...


@dataclass(frozen=True)
class KeyedRoute:
    """send: what is wanted, with these changes, under a key, by another holder or not. made: how many there are.
    refused: changes by which it is refused."""

    send: Callable[[str | None, dict[str, Any], bool], Answered]
    made: Callable[[], int]
    pass_time: Callable[[timedelta], None]
    refused: dict[str, Any]


class KeyedConformance:
    def test_the_same_key_and_body_is_the_same_and_makes_none(self, route: KeyedRoute) -> None:
        first, again = (route.send("deploy-7", {}, False) for _ in range(2))
        assert first.status_code == 201 and (again.status_code, again.json()) == (201, first.json())
        assert route.made() == 1

    def test_another_body_is_refused_and_names_the_header(self, route: KeyedRoute) -> None:
        route.send("deploy-7", {}, False)
        other = route.send("deploy-7", {"reason": "another"}, False)
        assert other.status_code == Conflict.status
        assert other.json()["error"]["detail"]["field"] == HEADER and HEADER in other.json()["error"]["message"]
        assert route.made() == 1

    def test_another_key_another_holder_and_none_are_others(self, route: KeyedRoute) -> None:
        sent = (("a", False), ("b", False), ("a", True), (None, False), (None, False))
        answers = [route.send(key, {}, by_another) for key, by_another in sent]
        assert len({one.json()["id"] for one in answers}) == len(sent) == route.made()

    def test_it_is_kept_for_a_day(self, route: KeyedRoute) -> None:
        first = route.send("deploy-7", {}, False).json()["id"]
        route.pass_time(KEPT)
        assert route.send("deploy-7", {}, False).json()["id"] == first
        route.pass_time(timedelta(seconds=1))
        assert route.send("deploy-7", {}, False).json()["id"] != first
        assert route.made() == 2

    def test_what_was_refused_leaves_its_key_free(self, route: KeyedRoute) -> None:
        assert route.send("deploy-7", route.refused, False).status_code == 400
        assert route.send("deploy-7", {}, False).status_code == 201

    def test_a_key_that_is_none_is_refused(self, route: KeyedRoute) -> None:
        for key in ("with space", "k" * 129):
            refused = route.send(key, {}, False)
            assert refused.status_code == 400 and HEADER in refused.json()["error"]["message"]
        assert route.made() == 0

    def test_several_at_once_make_one(self, route: KeyedRoute) -> None:
        start = Barrier(4)

        def send(_: int) -> Answered:
            start.wait(30)
            return route.send("deploy-7", {}, False)

        with ThreadPoolExecutor(4) as pool:
            answers = list(pool.map(send, range(4)))
        assert [one.status_code for one in answers] == [201] * 4
        assert len({one.json()["id"] for one in answers}) == 1 == route.made()
