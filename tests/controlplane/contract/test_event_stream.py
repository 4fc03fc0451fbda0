"""Server-sent events as they arrive."""

import pytest

from controlplane.contract.event_stream import ServerEvent, events


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("data: a\n\n", [ServerEvent("message", "a", "")]),
        ("event: rates\nid: 7\ndata: {}\n\n", [ServerEvent("rates", "{}", "7")]),
        (": ping\n\ndata: a\n\n: ping\n\n", [ServerEvent("message", "a", "")]),
        ("id: 7\ndata: a\n\ndata: b\n\n", [ServerEvent("message", "a", "7"), ServerEvent("message", "b", "7")]),
        ("data: a\ndata: b\ndata\n\n", [ServerEvent("message", "a\nb\n", "")]),
        ("data:no space\n\n", [ServerEvent("message", "no space", "")]),
        ("data: a: b\n\n", [ServerEvent("message", "a: b", "")]),
        ("retry: 10\nunknown: x\ndata: a\n\n", [ServerEvent("message", "a", "")]),
        ("event: rates\n\ndata: a\n\n", [ServerEvent("message", "a", "")]),
        ("data: a\n\ndata: cut off\n", [ServerEvent("message", "a", "")]),
        ("id: 1\nid: a\0b\ndata: a\n\n", [ServerEvent("message", "a", "1")]),
    ],
)
def test_events_of_a_stream(text: str, expected: list[ServerEvent]) -> None:
    assert list(events(text.split("\n")[:-1])) == expected
