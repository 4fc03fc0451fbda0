"""A page's stream: what has changed and nothing else, trouble told and ended, beats however slow a part is."""

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.contract.errors import BadRequest, Unauthenticated, Unavailable
from web.frame import live, rendering
from web.frame.live import SESSION, Chore, Look, Sent, events, look_at_part, look_at_session, next_round
from web.frame.page import Part


@dataclass
class Message:
    name: str | None
    data: str

    @property
    def told(self) -> Any:
        return json.loads(self.data)


def read(message: bytes) -> Message:
    lines = message.decode().split("\n")
    name = next((line.removeprefix("event: ") for line in lines if line.startswith("event: ")), None)
    return Message(name, "\n".join(line.removeprefix("data: ") for line in lines if line.startswith("data: ")))


class Clock:
    """Time that passes only while somebody waits for it."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s

    async def pause(self, for_s: float) -> None:
        self.now_s += for_s


def streamed(chores: list[Chore], until_s: float, fresh: frozenset[str] = frozenset()) -> list[tuple[float, Message]]:
    """All messages of a browser that leaves after `until_s`, each with its time."""
    clock = Clock()

    async def gone() -> bool:
        return clock() > until_s

    async def all_of() -> list[tuple[float, Message]]:
        return [(clock(), read(one)) async for one in events(gone, chores, fresh, clock, clock.pause)]

    return asyncio.run(all_of())


def chore(name: str, looks: Iterator[Look], every_s: float = 5.0) -> Chore:
    return Chore(name, every_s, lambda: next(looks))


def same(look: Look) -> Iterator[Look]:
    while True:
        yield look


def test_only_what_has_changed_is_sent() -> None:
    still = chore("still", same(Look("<p>one</p>")))
    moving = chore("moving", iter([Look("a"), Look("a"), Look("b"), Look("b")]))
    found = streamed([still, moving], 17)
    assert [(at, message.data) for at, message in found if message.name is None] == [
        (0.0, '<hx-partial hx-target="#part-still" hx-swap="innerMorph"><p>one</p></hx-partial>'),
        (0.0, '<hx-partial hx-target="#part-moving" hx-swap="innerMorph">a</hx-partial>'),
        (10.0, '<hx-partial hx-target="#part-moving" hx-swap="innerMorph">b</hx-partial>'),
    ]
    refreshed = [(at, message.told["parts"]) for at, message in found if message.name == "beat"]
    in_time = [(at, ["still", "moving"]) for at in (0.0, 5.0, 10.0, 15.0)]
    assert [(at, parts) for at, parts in refreshed if parts] == in_time


def test_what_the_page_came_with_is_not_asked_for_at_once() -> None:
    chores = [chore("there", same(Look("a"))), chore("missing", same(Look("b")))]
    found = streamed(chores, 4, frozenset({"there"}))
    assert [message.data.count("part-missing") for _, message in found if message.name is None] == [1]


def test_a_part_is_asked_for_as_often_as_it_wants() -> None:
    asked: list[str] = []

    def often(name: str) -> Look:
        asked.append(name)
        return Look("")

    streamed([Chore("slow", 15.0, lambda: often("slow")), Chore("quick", 2.0, lambda: often("quick"))], 29)
    assert (asked.count("slow"), asked.count("quick")) == (2, 15)


def test_a_beat_comes_at_least_every_two_seconds() -> None:
    beats = [at for at, message in streamed([chore("part", same(Look("x")))], 60) if message.name == "beat"]
    assert beats[0] == 0.0 and max(after - before for before, after in pairwise(beats)) <= live.BEAT_S


def test_trouble_is_told_once_and_its_end_is_a_refreshed_part() -> None:
    looks = iter([Look("a"), Look(trouble="no such pool"), Look(trouble="no such pool"), Look("a")])
    found = streamed([chore("part", looks)], 16)
    told = [(at, message.told) for at, message in found if message.name == "trouble"]
    assert told == [(5.0, {"part": "part", "message": "no such pool"})]
    refreshed = [at for at, message in found if message.name == "beat" and message.told["parts"] == ["part"]]
    assert refreshed == [0.0, 15.0]
    assert len([message for _, message in found if message.name is None]) == 1  # It is as it was.


def test_an_ended_session_is_said_and_ends_the_stream() -> None:
    session = chore(SESSION, iter([Look(), Look(ended=True)]))
    found = streamed([session, chore("part", same(Look("a")))], 60)
    assert (found[-1][0], found[-1][1].name) == (5.0, "signed-out")
    ended_by_a_part = streamed([chore("part", iter([Look("a"), Look(ended=True)]))], 60)
    assert (ended_by_a_part[-1][0], ended_by_a_part[-1][1].name) == (5.0, "signed-out")


def test_a_part_that_is_waited_for_holds_no_beat_and_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "BEAT_S", 0.01)
    answered = threading.Event()

    def hangs() -> Look:
        assert answered.wait(30)
        return Look("at last")

    async def seen() -> list[Message]:
        found: list[Message] = []

        async def gone() -> bool:
            return any("at last" in one.data for one in found)

        async for one in events(gone, [Chore("part", 5.0, hangs)], frozenset()):
            found.append(read(one))
            if len([one for one in found if one.name == "beat"]) == 6:
                answered.set()
        return found

    found = asyncio.run(seen())
    assert [one.told for one in found if one.name == "trouble"] == [{"part": "part", "message": "no answer yet"}]
    assert [one.told["parts"] for one in found if one.name == "beat"][:6] == [[]] * 6
    assert found[-1].told["parts"] == ["part"]


LOOKS = st.builds(Look, st.sampled_from(["a", "b"])) | st.builds(Look, st.none(), st.sampled_from(["x", "y"]))


@given(st.lists(st.tuples(st.sampled_from("pq"), LOOKS), max_size=30))
def test_whoever_hears_all_shows_the_newest_markup_and_the_trouble_of_now(looks: list[tuple[str, Look]]) -> None:
    sent = Sent()
    shown, troubled, newest, kept_from = dict[str, str](), dict[str, str](), dict[str, str](), dict[str, str]()
    for name, look in looks:
        for message in [read(one) for one in [*sent.messages(name, look), sent.beat()]]:
            if message.name == "trouble":
                troubled[message.told["part"]] = message.told["message"]
            elif message.name == "beat":
                for part in message.told["parts"]:
                    troubled.pop(part, None)
            else:
                shown[message.data.split("#part-")[1][0]] = message.data.split(">")[1].split("<")[0]
        if look.markup is not None:
            newest[name] = look.markup
            kept_from.pop(name, None)
        else:
            kept_from[name] = look.trouble
        assert (shown, troubled) == (newest, kept_from)


class Raising:
    """An API that answers each call with this error."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def own_session(self) -> None:
        raise self.error


@pytest.mark.parametrize(
    ("error", "look"),
    [
        (Unauthenticated("sign in first"), Look(ended=True)),
        (Unavailable("busy"), Look(trouble="busy")),
        (httpx.ConnectError("refused"), Look(trouble=rendering.NO_ANSWER)),
        (httpx.ReadTimeout("late"), Look(trouble=rendering.NO_ANSWER)),
    ],
)
def test_an_api_that_does_not_answer_has_not_ended_the_session(error: Exception, look: Look) -> None:
    assert look_at_session(Raising(error)) == look  # type: ignore[arg-type]


def test_a_part_that_is_refused_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: Any) -> str:
        raise BadRequest("above: wants a number", field="above")

    monkeypatch.setattr(live, "part_drawn", refused)
    at_now: Callable[[], Any] = lambda: None  # noqa: E731
    part = Part("p", lambda client, selection: {})
    assert look_at_part(None, part, None, at_now) == Look(trouble="above: wants a number")  # type: ignore[arg-type]


def test_viewers_that_came_at_different_moments_look_together() -> None:
    rounds = {next_round(100.0 + late, 5.0) for late in (0.0, 0.4, 3.1, 4.9)}
    assert rounds == {105.0} and next_round(105.0, 5.0) == 110.0
