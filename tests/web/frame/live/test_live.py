"""A page's stream: what has changed and nothing else, trouble told and ended, beats however slow a part is.

Of viewers who look together each is sent what the own session may see, and nobody another's token.
"""

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import httpx
import pytest
from fastapi import Request
from hypothesis import given
from hypothesis import strategies as st

from controlplane.contract.bodies.access import Scope
from controlplane.contract.bodies.nodes import FleetColumns
from controlplane.serving.joint_lookup import JointLookup
from tests.web.browser_request import request_of, secret_of
from web.access.sessions import form_token
from web.access.shared_answers import SharedAnswers, SharingTransport
from web.access.viewer import Viewer
from web.frame import live
from web.frame.broken_parts import TOLD
from web.frame.live import SESSION, Chore, Opened, Sent, Together, events, in_thread, next_round, stream_of
from web.frame.look import Look
from web.frame.marks import mark_of, marks_in
from web.frame.page import Page, Part
from web.frame.selection import selection_of
from web.rollouts.rollout_page import PAGE


@dataclass
class Message:
    name: str | None
    data: str
    id: str = ""

    @property
    def told(self) -> Any:
        return json.loads(self.data)


def read(message: bytes) -> Message:
    lines = message.decode().split("\n")
    name = next((line.removeprefix("event: ") for line in lines if line.startswith("event: ")), None)
    shown = next((line.removeprefix("id: ") for line in lines if line.startswith("id: ")), "")
    return Message(name, "\n".join(line.removeprefix("data: ") for line in lines if line.startswith("data: ")), shown)


class Clock:
    """Time that passes only while somebody waits for it."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s

    async def pause(self, for_s: float) -> None:
        self.now_s += for_s


def streamed(
    chores: list[Chore], until_s: float, not_at_once: frozenset[str] = frozenset(), **shown: str
) -> list[tuple[float, Message]]:
    """All messages of a browser that leaves after `until_s`, each with its time. `shown`: markup by part."""
    clock = Clock()

    async def gone() -> bool:
        return clock() > until_s

    async def all_of() -> list[tuple[float, Message]]:
        sent = Sent({name: mark_of(markup) for name, markup in shown.items()})
        return [(clock(), read(one)) async for one in events(gone, chores, not_at_once, sent, clock, clock.pause)]

    return asyncio.run(all_of())


def chore(name: str, looks: Iterator[Look], every_s: float = 5.0) -> Chore:
    return doing(name, every_s, lambda: next(looks))


def doing(name: str, every_s: float, look: Callable[[], Look]) -> Chore:
    async def looked() -> Look:
        return look()

    return Chore(name, every_s, looked)


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


def test_what_the_browser_shows_already_is_refreshed_and_not_sent() -> None:
    looks = iter([Look("as it came"), Look("other"), Look("as it came")])
    found = streamed([chore("part", looks)], 12, frozenset({"part"}), part="as it came")
    assert [(at, message.data.split(">")[1].split("<")[0]) for at, message in found if message.name is None] == [
        (10.0, "other")
    ]
    refreshed = [at for at, message in found if message.name == "beat" and message.told["parts"] == ["part"]]
    assert refreshed == [5.0, 10.0]


def test_an_events_id_says_all_that_the_browser_shows_from_then_on() -> None:
    chores = [chore("still", same(Look("<p>one</p>"))), chore("moving", iter([Look("a"), Look("b")]))]
    found = [message for _, message in streamed(chores, 9) if message.name is None]
    still, first, second = mark_of("<p>one</p>"), mark_of("a"), mark_of("b")
    assert [marks_in(message.id) for message in found] == [
        {"still": still},
        {"still": still, "moving": first},
        {"still": still, "moving": second},
    ]


def test_a_part_is_asked_for_as_often_as_it_wants() -> None:
    asked: list[str] = []

    def often(name: str) -> Look:
        asked.append(name)
        return Look("")

    streamed([doing("slow", 15.0, lambda: often("slow")), doing("quick", 2.0, lambda: often("quick"))], 29)
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

        async for one in events(gone, [Chore("part", 5.0, lambda: in_thread(hangs))], frozenset(), Sent()):
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


def test_viewers_that_came_at_different_moments_look_together() -> None:
    rounds = {next_round(100.0 + late, 5.0) for late in (0.0, 0.4, 3.1, 4.9)}
    assert rounds == {105.0} and next_round(105.0, 5.0) == 110.0


def opened(**given: Any) -> Opened:
    return Opened(PAGE, None, lambda: selection_of({}, live.utc_now()), **given)  # type: ignore[arg-type]


def test_what_was_heard_last_goes_before_what_the_page_came_with() -> None:
    came, heard = f"a.{mark_of('1')},b.{mark_of('2')}", f"a.{mark_of('3')}"
    assert opened(fresh=came).shown == {"a": mark_of("1"), "b": mark_of("2")}
    assert opened(fresh=came).not_at_once == {"a", "b", SESSION}
    # Whoever comes again may have been away for long: each part is looked at, and sent where it is another.
    assert opened(fresh=came, heard=heard).shown == {"a": mark_of("3")}
    assert opened(fresh=came, heard=heard).not_at_once == {SESSION}
    assert opened(fresh=came, heard="").shown == opened(fresh="a,b,x.y").shown == {}


ROLLOUT = {
    "id": 1,
    "phase": "proposed",
    "spec": {"pool": "chat", "revision": 2},
    "canary_nodes": ["gpu-1"],
    "needs_approval": True,
    "created_by": "ann",
    "created_at": "2030-01-01T00:00:00Z",
}
REVISION = {"number": 2, "hash": "h", "knobs": {}, "created_by": "t", "created_at": "2030-01-01T00:00:00Z"}
NO_NODES: dict[str, list[Any]] = {name: [] for name in FleetColumns.model_fields}
NO_SHARES: dict[str, None] = dict.fromkeys(("traffic_share", "traffic_share_at_once", "unavailable_s"))
ANSWERS = {
    "/api/v1/rollouts/1": ROLLOUT,
    "/api/v1/rollouts/1/blast-radius": {"nodes": 0, "nodes_at_once": 0, "tenants": 0, **NO_SHARES},
    "/api/v1/configs/2": REVISION,
    "/api/v1/fleet": NO_NODES,
    **{f"/api/v1/{name}": {"items": [], "next": None} for name in ("freezes", "pins", "rollout-policies", "ledger")},
}


class Service:
    """An API that answers all alike, and the dashboard's streams of it."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.answers = SharedAnswers()
        self.together = Together(JointLookup(lambda secrets: dict.fromkeys(secrets, Scope.READ)))

    def answer(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(request.url.path)
        return httpx.Response(200, json=ANSWERS[request.url.path])

    def viewer(self, who: str, scope: Scope) -> Viewer:
        inner = httpx.MockTransport(self.answer)
        return Viewer("http://service", secret_of(who), SharingTransport(inner, self.answers, scope))

    async def first(self, page: Page, who: str, scope: Scope, **params: str) -> str:
        """The markup that this one's browser gets first."""
        request = request_of(who)
        stream = stream_of(stays(request), Opened(page, self.viewer(who, scope), lambda: at(params)), self.together)
        async for one in stream:
            message = read(one)
            if message.name is None:
                return message.data
        raise AssertionError("the stream ended")


def at(params: dict[str, str]) -> Any:
    return selection_of(params, live.utc_now())


def stays(request: Request) -> Request:
    async def gone() -> bool:
        return False

    request.is_disconnected = gone  # type: ignore[method-assign]
    return request


def test_viewers_who_look_together_get_their_own_forms_and_what_their_scope_may_see() -> None:
    """One page at the same moment: two admins, two operators, two who read."""
    scopes = [Scope.ADMIN, Scope.ADMIN, Scope.OPERATE, Scope.OPERATE, Scope.READ, Scope.READ]
    people = [f"viewer-{number}" for number in range(len(scopes))]
    service = Service()

    async def all_of() -> list[str]:
        them = [service.first(PAGE, who, scope, rollout="1") for who, scope in zip(people, scopes, strict=True)]
        return await asyncio.gather(*them)

    shown = asyncio.run(all_of())
    tokens = [form_token(request_of(who)) for who in people]
    assert len(set(tokens)) == len(people) and all(tokens)
    for place, (scope, markup) in enumerate(zip(scopes, shown, strict=True)):
        assert "Waits for the approval" in markup
        assert [token in markup for token in tokens] == [one == place and scope != Scope.READ for one in range(6)]
        assert ("/rollouts/1/approve" in markup) is (scope == Scope.ADMIN)
        assert ("/rollouts/1/cancel" in markup) is (scope != Scope.READ)


def test_an_error_of_our_own_in_a_part_leaves_the_others_going_on() -> None:
    drawn: list[str] = []

    def fails(*_: Any) -> dict[str, Any]:
        raise ZeroDivisionError("of nothing")

    def works(*_: Any) -> dict[str, Any]:
        drawn.append("rollouts")
        return {"rollouts": []}

    broken: list[str] = []
    parts = (Part("broken", fails, 0.01, template="rollouts"), Part("rollouts", works, 0.01))
    page, service = Page("rollouts", "/rollouts", "Rollouts", parts), Service()

    async def seen() -> list[Message]:
        asked = Opened(page, service.viewer("ann", Scope.READ), lambda: at({}))
        found: list[Message] = []
        async for one in stream_of(stays(request_of("ann", broken)), asked, service.together):
            found.append(read(one))
            if len(broken) > 2 and len(drawn) > 2:
                return found
        raise AssertionError("the stream ended")

    found = asyncio.run(seen())
    assert [one.told for one in found if one.name == "trouble"] == [{"part": "broken", "message": TOLD}]
    assert [one.data.count("part-rollouts") for one in found if one.name is None] == [1]
    assert {name for one in found if one.name == "beat" for name in one.told["parts"]} - {SESSION} == {"rollouts"}
    assert set(broken) == {"rollouts/broken"}


def test_viewers_of_one_scope_have_a_part_drawn_once_and_those_of_another_theirs() -> None:
    drawn: list[Scope] = []

    def asked(client: Any, _: Any) -> dict[str, Any]:
        drawn.append(client.scope)
        return {"rollouts": []}

    page, service = Page("rollouts", "/rollouts", "Rollouts", (Part("rollouts", asked),)), Service()

    async def all_of() -> list[str]:
        them = [service.first(page, f"reader-{number}", Scope.READ) for number in range(10)]
        return await asyncio.gather(*them, service.first(page, "ann", Scope.ADMIN))

    assert len(set(asyncio.run(all_of()))) == 1
    assert sorted(drawn) == [Scope.ADMIN, Scope.READ]
