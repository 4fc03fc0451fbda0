import gzip
import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.client_measure.answer import EventScanner, Outcome, Scanner, scanner_of

EVENTS = "text/event-stream; charset=utf-8"
TEXTS = st.text(max_size=20)


def chat(delta: dict[str, Any], reason: str | None = None) -> dict[str, Any]:
    return {"id": "chatcmpl-1", "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}


def sse(*events: dict[str, Any] | str, end: bytes = b"\n") -> bytes:
    told = [event if isinstance(event, str) else json.dumps(event) for event in events]
    return b"".join(b"data: " + text.encode() + 2 * end for text in told)


def feed(scanner: Scanner, data: bytes, cuts: list[int] | None = None) -> int:
    places = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts or [])})
    return sum(scanner.feed(data[low:high]) for low, high in pairwise(places))


@given(
    st.lists(TEXTS),
    st.sampled_from([b"\n", b"\r\n", b"\r"]),
    st.sampled_from(["stop", "length", "tool_calls"]),
    st.lists(st.integers(0, 10_000), max_size=20),
)
def test_pieces_and_outcome_do_not_depend_on_how_the_network_cuts(
    texts: list[str], end: bytes, reason: str, cuts: list[int]
) -> None:
    usage = {"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 17, "total_tokens": 26}}
    data = sse(
        chat({"role": "assistant", "content": ""}),
        *(chat({"content": text}) for text in texts),
        chat({"content": ""}, reason),
        usage,
        "[DONE]",
        end=end,
    )
    scanner = EventScanner()
    assert feed(scanner, data, cuts) == sum(bool(text) for text in texts)
    assert scanner.begun and scanner.done
    assert scanner.outcome() == Outcome(reason, 17, False)


@given(st.text(min_size=1))
def test_no_text_is_taken_for_a_field(text: str) -> None:
    hostile = text + '"finish_reason": "stop", "completion_tokens": 99, {"error": {"x": 1}} [DONE] data: [DONE]\n\n'
    scanner = EventScanner()
    assert feed(scanner, sse(chat({"content": hostile}))) == 1
    assert not scanner.done and scanner.outcome() == Outcome("", None, False)


@given(st.lists(st.binary(max_size=200)), st.sampled_from(["", "gzip", "br"]), st.sampled_from([EVENTS, "x"]))
def test_no_bytes_raise(chunks: list[bytes], encoding: str, content_type: str) -> None:
    scanner = scanner_of(content_type, encoding)
    for chunk in chunks:
        assert scanner.feed(chunk) >= 0
    reason, tokens, failed = scanner.outcome()
    assert isinstance(reason, str) and (tokens is None or tokens >= 0) and failed in (False, True)


def test_a_completion_speaks_in_text_and_tools_in_arguments() -> None:
    said = [{"choices": [{"index": 0, "text": " x"}]}, chat({"tool_calls": [{"function": {"arguments": '{"a"'}}]})]
    assert feed(EventScanner(), sse(*said)) == 2


def test_a_comment_is_no_piece_and_no_beginning() -> None:
    scanner = EventScanner()
    assert scanner.feed(b": ping\n\n") == 0 and not scanner.begun


def test_an_error_event_is_seen() -> None:
    scanner = EventScanner()
    feed(scanner, sse(chat({"content": "a"}), {"error": {"message": "gone", "code": 500}}, "[DONE]"))
    assert scanner.outcome().failed


@pytest.mark.parametrize("spaces", [True, False])
def test_an_answer_in_one_piece_tells_its_end(spaces: bool) -> None:
    body = {**chat({}, "length"), "usage": {"completion_tokens": 5}}
    data = json.dumps(body, separators=None if spaces else (",", ":")).encode()
    scanner = scanner_of("application/json", "")
    assert feed(scanner, data, [7, 40]) == 0
    assert scanner.outcome() == Outcome("length", 5, False)


def test_gzip_is_read_and_what_is_none_tells_nothing() -> None:
    data = gzip.compress(sse(chat({"content": "a"}), chat({"content": "b"}, "stop"), "[DONE]"))
    scanner = scanner_of(EVENTS, "gzip")
    assert feed(scanner, data, [5, 30]) == 2
    assert scanner.done and scanner.outcome().finish_reason == "stop"
    broken = scanner_of(EVENTS, "gzip")
    assert feed(broken, b"\xff" * 50) == 0 and broken.outcome() == Outcome("", None, False)
