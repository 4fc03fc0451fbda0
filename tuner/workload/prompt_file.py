"""A file of prompts: a JSON object a line with `prompt` and, where it is told, `max_tokens`; or ShareGPT's JSON, of
whose conversations the first turn is taken.

ShareGPT: a list of objects with `conversations`, each a list of turns `{"from": "human", "value": ...}`.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from controlplane.contract.errors import BadRequest
from controlplane.contract.planning.packed_prompts import Prompt

_ASKS = ("human", "user")


def read_prompts(path: Path) -> list[Prompt]:
    """In their order. Raises `BadRequest` that names the line, or the conversation."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadRequest(f"{path.name}: no text in UTF-8; save it as that", field="file") from error
    if not text.strip():
        raise BadRequest(f"{path.name}: is empty", field="file")
    if text.lstrip().startswith("["):
        try:
            document = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise BadRequest(f"{path.name}: no JSON ({error})", field="file") from error
        return [_first_turn(one, f"conversation {place}") for place, one in enumerate(document, 1)]
    lines = ((place, line) for place, line in enumerate(text.split("\n"), 1) if line.strip())
    return [_prompt(line, f"line {place}") for place, line in lines]


def _prompt(line: str, place: str) -> Prompt:
    try:
        told = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise BadRequest(f"{place}: no JSON ({error})", field=place) from error
    text = told.get("prompt") if isinstance(told, Mapping) else None
    if not isinstance(text, str) or not text.strip():
        raise BadRequest(f'{place}: wants a prompt: {{"prompt": "...", "max_tokens": 200}}', field=place)
    most = told.get("max_tokens")
    if most is not None and (not isinstance(most, int) or isinstance(most, bool) or most < 1):
        raise BadRequest(f"{place}: max_tokens: wants a whole number of at least 1, got {most!r}", field=place)
    return Prompt(text, most)


def _first_turn(told: Any, place: str) -> Prompt:
    turns = told.get("conversations") if isinstance(told, Mapping) else None
    for turn in turns if isinstance(turns, list) else []:
        text = turn.get("value") if isinstance(turn, Mapping) and turn.get("from") in _ASKS else None
        if isinstance(text, str) and text.strip():
            return Prompt(text)
    raise BadRequest(
        f'{place}: wants a first turn: {{"conversations": [{{"from": "human", "value": "..."}}]}}', field=place
    )
