"""The lines of a server's log that say why it failed. Pure.

Guarantee: at most `MOST_LINES` lines and `MOST_CHARACTERS` characters; the root cause first as far as its form tells:
vLLM's engine process writes the real error, the server process then says only that the engine failed.
"""

import re

MOST_LINES = 15
MOST_CHARACTERS = 2000
_LONGEST_LINE = 400

_PREFIX = re.compile(
    r"^(?:\([\w :.]+pid=\d+\) ?)?"  # (EngineCore pid=123)
    r"(?:(?:DEBUG|INFO|WARNING|ERROR|CRITICAL) \d\d-\d\d \d\d:\d\d:\d\d \[[^\]]*\] ?)?"  # ERROR 11-21 10:00:00 [x.py:1]
)
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_RAISED = re.compile(r"^(?:[\w.]+\.)?\w*(?:Error|Exception|Interrupt|Exit)\b(?::|$)")
_SAID = re.compile(r"\berror:|\b(?:fatal|killed|terminate called|out of memory|core dumped)\b", re.IGNORECASE)
_SECOND_HAND = re.compile(
    r"see root cause above|see stack trace for root cause|worker failed with error", re.IGNORECASE
)


def telling_lines(log: str) -> str:
    """The most telling lines, one under the other; empty when the log is."""
    lines = [_PREFIX.sub("", _COLOUR.sub("", line)).rstrip() for line in log.splitlines()]
    lines = [line for line in lines if line.strip()]
    raised = [place for place, line in enumerate(lines) if _RAISED.match(line)]
    first_hand = [place for place in raised if not _SECOND_HAND.search(lines[place])]
    chosen: list[int] = []
    for place in reversed(first_hand):
        chosen += [place, *_explanation(lines, place)]
    chosen += [place for place in reversed(range(len(lines))) if _SAID.search(lines[place]) and place not in raised]
    chosen += [place for place in range(len(lines)) if not lines[place].startswith(" ")][-MOST_LINES:]
    return _bounded([lines[place] for place in chosen])


def _explanation(lines: list[str], place: int) -> list[int]:
    """An exception's message may go on below it, indented: pydantic's does."""
    below = []
    for after in range(place + 1, min(place + 4, len(lines))):
        if not lines[after].startswith(" ") or lines[after].lstrip().startswith("File "):
            break
        below.append(after)
    return below


def _bounded(lines: list[str]) -> str:
    kept: list[str] = []
    room = MOST_CHARACTERS
    for line in dict.fromkeys(line[:_LONGEST_LINE] for line in lines):
        if len(kept) == MOST_LINES or len(line) + 1 > room:
            break
        kept.append(line)
        room -= len(line) + 1
    return "\n".join(kept)
