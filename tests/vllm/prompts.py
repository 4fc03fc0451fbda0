"""Prompts for the real servers: pieces of this project's own sources, some with a common beginning, of many lengths."""

import random
from functools import cache

from tests.vllm.real_vllm import ROOT, token_ids

SYSTEM_TOKENS = 96
LONGEST_TOKENS = 700


@cache
def _tokens() -> list[int]:
    files = sorted((ROOT / "agents/agent").rglob("*.py")) + sorted((ROOT / "controlplane/contract").rglob("*.py"))
    return token_ids("\n".join(file.read_text(encoding="utf-8") for file in files))


def prompts(count: int, seed: int) -> list[list[int]]:
    """`count` prompts as token ids; each third begins with the same text, and lengths are many short, few long."""
    drawn = random.Random(seed)
    source = _tokens()
    made: list[list[int]] = []
    for number in range(count):
        length = min(int(drawn.lognormvariate(4.2, 1.0)) + 4, LONGEST_TOKENS - SYSTEM_TOKENS)
        start = drawn.randrange(SYSTEM_TOKENS, len(source) - length)
        beginning = source[:SYSTEM_TOKENS] if number % 3 == 0 else source[:1]  # A begin-of-text token, where one is.
        made.append(beginning + source[start : start + length])
    return made
