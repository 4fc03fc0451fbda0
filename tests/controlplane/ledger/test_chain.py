"""The chain alone: whatever is done to rows, the first wrong one is named."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.ledger.chain import START, Content, Head, Link, Wrong, digest, extended, first_wrong

NOW = datetime(2026, 1, 1, tzinfo=UTC)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
CONTENTS = st.builds(
    Content, st.datetimes(timezones=st.just(UTC)), *[st.text()] * 4, st.dictionaries(st.text(), VALUES, max_size=3)
)


def content(message: str = "done") -> Content:
    return Content(NOW, "me", "a.b", "a/1", message, {"x": 1.5})


def chained(contents: list[Content]) -> tuple[list[Link], Head]:
    links, head = [], START
    for each in contents:
        links.append(extended(head, each))
        head = Head(links[-1].id, links[-1].hash)
    return links, head


def numbered(count: int) -> tuple[list[Link], Head]:
    return chained([content(f"entry {number}") for number in range(1, count + 1)])


def test_a_hash_is_of_everything_in_the_row_and_of_what_came_before() -> None:
    one = digest(START, content())
    assert one == digest(START, content())
    others = [
        replace(content(), time=NOW + timedelta(microseconds=1)),
        replace(content(), actor="you"),
        replace(content(), kind="a.c"),
        replace(content(), subject="a/2"),
        content("undone"),
        replace(content(), evidence={"x": 1.6}),
    ]
    elsewhere = [digest(Head(0, "1" * 64), content()), digest(Head(1, START.hash), content())]
    hashes = [one, *(digest(START, other) for other in others), *elsewhere]
    assert len(set(hashes)) == len(hashes)
    assert digest(START, replace(content(), time=NOW.astimezone(timezone(timedelta(hours=2))))) == one
    assert digest(START, replace(content(), evidence={"b": (1, 2), "a": {3: 4}})) == digest(
        START, replace(content(), evidence={"a": {"3": 4}, "b": [1, 2]})
    )


@given(st.lists(CONTENTS, min_size=1, max_size=6), st.data())
def test_any_change_is_named_where_it_is(contents: list[Content], data: st.DataObject) -> None:
    links, head = chained(contents)
    assert first_wrong(links, head) is None
    at = data.draw(st.integers(0, len(links) - 1))
    other = data.draw(CONTENTS.filter(lambda new: digest(START, new) != digest(START, contents[at])))
    changed = [*links[:at], replace(links[at], content=other), *links[at + 1 :]]
    assert first_wrong(changed, head) == Wrong(at + 1, "was changed")
    assert first_wrong([*links[:at], *links[at + 1 :]], head) == Wrong(at + 1, "is missing")
    again, new_head = chained([*contents[:at], other, *contents[at + 1 :]])
    assert first_wrong(again, new_head) is None, "who chains all anew is found by a head that was told"
    found = first_wrong(again, new_head, [head])
    assert found is not None and found.id == head.id


@pytest.mark.parametrize("at", [1, 3, 5])
def test_one_put_between_with_the_others_moved_up_is_named(at: int) -> None:
    links, head = numbered(4)
    added = extended(Head(at - 1, "2" * 64), content("never"))
    moved = [replace(link, id=link.id + 1) for link in links[at - 1 :]]
    assert first_wrong([*links[: at - 1], added, *moved], head) == Wrong(at, "was inserted")
    assert first_wrong([replace(added, id=0), *links], head) == Wrong(0, "was inserted")


def test_one_that_was_removed_and_its_number_given_to_the_next_is_named() -> None:
    links, head = numbered(4)
    closed = [*links[:1], *(replace(link, id=link.id - 1) for link in links[2:])]
    assert first_wrong(closed, head) == Wrong(2, "was changed")


def test_a_head_that_names_another() -> None:
    links, head = numbered(3)
    assert first_wrong(links, Head(3, "3" * 64)) == Wrong(3, "is not the one that the head names")
    assert first_wrong([], head) == Wrong(1, "is missing")
    assert first_wrong([], START) is None
    assert first_wrong(links[:2], Head(2, links[1].hash), [head]) == Wrong(
        3, "is missing: the head that was told earlier is entry 3"
    )
    assert first_wrong(links, head, [Head(2, links[1].hash)]) is None
    assert first_wrong(links, head, [START]) is None
    other = Head(2, "2" * 64)
    for known in ([other, Head(2, links[1].hash)], [Head(1, links[0].hash), other, head]):
        assert first_wrong(links, head, known) == Wrong(2, "or one before it was changed since its hash was told")
    assert str(Wrong(3, "was changed")) == "ledger entry 3 was changed"
