"""What a hook's answer means (pure). A body is somebody else's: no more of it is shown than a line of plain text."""

import json

from controlplane.contract.changes.hooks import HookState

HALTS = frozenset({403, 409, 423})
"""Statuses that say no; any other but 2xx is no answer, and is asked for again."""
MOST_REASON = 300


def meaning(status: int, body: bytes) -> tuple[HookState | None, str]:
    """What was answered, with its reason; None: this was no answer.

    A body may be `{"answer": "go" | "halt", "reason": "..."}`; another `answer` than go is taken for halt.
    """
    said = _object(body)
    told = said.get("reason")
    reason = _line(told if isinstance(told, str) else "" if said else _text(body))
    if status in HALTS:
        return HookState.HALT, reason or f"answered {status}"
    if not 200 <= status < 300:
        return None, f"answered {status}{': ' if reason else ''}{reason}"
    answer = said.get("answer", HookState.GO.value)
    if answer != HookState.GO.value:
        return HookState.HALT, reason or f"answered {_line(str(answer))!r}"
    return HookState.GO, reason


def _object(body: bytes) -> dict[str, object]:
    try:
        said = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return said if isinstance(said, dict) else {}


def _text(body: bytes) -> str:
    """A page of HTML says nothing to people."""
    text = body.decode(errors="replace").strip()
    return "" if text[:1] in ("<", "{", "[") else text


def _line(text: str) -> str:
    printable = "".join(letter if letter.isprintable() else " " for letter in text)
    return " ".join(printable.split())[:MOST_REASON]
