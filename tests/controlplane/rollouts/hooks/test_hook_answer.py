"""What an answer means: go, halt with its reason, or none at all; whatever the body holds."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.contract.changes.hooks import HookState
from controlplane.rollouts.hooks.hook_answer import HALTS, MOST_REASON, meaning


@pytest.mark.parametrize(
    ("status", "body", "expected"),
    [
        (200, b"", (HookState.GO, "")),
        (204, b"", (HookState.GO, "")),
        (200, b'{"answer": "go", "reason": "load test passed"}', (HookState.GO, "load test passed")),
        (200, b'{"answer": "halt", "reason": "release meeting"}', (HookState.HALT, "release meeting")),
        (200, b'{"answer": "no"}', (HookState.HALT, "answered 'no'")),
        (409, b"not before six", (HookState.HALT, "not before six")),
        (403, b"<html>Forbidden</html>", (HookState.HALT, "answered 403")),
        (500, b"", (None, "answered 500")),
        (302, b"", (None, "answered 302")),
        (200, b"[1, 2]", (HookState.GO, "")),
    ],
)
def test_answers(status: int, body: bytes, expected: tuple[HookState | None, str]) -> None:
    assert meaning(status, body) == expected


@given(
    st.integers(100, 599),
    st.binary(max_size=2000) | st.dictionaries(st.text(), st.text()).map(json.dumps).map(str.encode),
)
def test_whatever_is_sent_is_a_short_printable_line(status: int, body: bytes) -> None:
    state, reason = meaning(status, body)
    assert reason.isprintable() and len(reason) <= MOST_REASON + len("answered 500: ")
    assert (state is None) == (status not in HALTS and not 200 <= status < 300)
