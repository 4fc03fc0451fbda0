"""Prompts as they are kept and sent: packed. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from controlplane.contract.planning.packed_json import packed_json, unpacked_json

LARGEST_BYTES = 16 * 2**20
"""Unpacked."""


@dataclass(frozen=True)
class Prompt:
    """A prompt as it is sent, and how many tokens its answer may have; None: not told."""

    text: str
    max_tokens: int | None = None


def packed_prompts(prompts: Sequence[Prompt]) -> str:
    """Base64 of compressed JSON."""
    return packed_json([[one.text, one.max_tokens] for one in prompts])


def unpacked_prompts(packed: str, largest_bytes: int = LARGEST_BYTES) -> list[Prompt]:
    """Raises ValueError for what was not packed so, or is larger when it is unpacked."""
    document = unpacked_json(packed, largest_bytes)
    if not isinstance(document, list):
        raise ValueError("wants a list of prompts")
    return [_prompt(place, one) for place, one in enumerate(document, 1)]


def _prompt(place: int, told: Any) -> Prompt:
    if not isinstance(told, list) or len(told) != 2:
        raise ValueError(f"prompt {place}: wants a text and how many tokens its answer may have, or null")
    text, most = told
    if not isinstance(text, str) or not text.strip():
        raise ValueError(f"prompt {place}: wants a text that is not empty")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError(f"prompt {place}: holds half of a surrogate pair, which is no text") from None
    if most is not None and (not isinstance(most, int) or isinstance(most, bool) or most < 1):
        raise ValueError(f"prompt {place}: max_tokens wants a whole number of at least 1, or null")
    return Prompt(text, most)
