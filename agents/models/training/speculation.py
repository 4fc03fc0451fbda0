"""What speculation gains on this model: how many drafted tokens greedy decoding of the target accepts.

Guarantees: the text is the target's own greedy text, decoded one token a step in float32; a drafted token is accepted
exactly when it and all drafted before it in the step equal that text, which is what lossless verification does
(Leviathan et al. 2023, section 2, at temperature 0). So no verification needs to run: replaying the text gives the
same counts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch

Drafter = Callable[[Sequence[int], int], list[int]]
"""Proposes at most the given number of tokens that follow the context."""


@dataclass(frozen=True)
class Counts:
    """Sums over steps. A step emits the accepted drafts and one token of the target's own."""

    steps: int = 0
    emitted: int = 0
    proposed: int = 0
    accepted: int = 0

    def __add__(self, other: Counts) -> Counts:
        return Counts(
            self.steps + other.steps,
            self.emitted + other.emitted,
            self.proposed + other.proposed,
            self.accepted + other.accepted,
        )

    def figures(self) -> dict[str, Any]:
        """The counts with `acceptance` (accepted / proposed) and `tokens_per_step`."""
        return {
            **asdict(self),
            "acceptance": round(self.accepted / max(1, self.proposed), 4),
            "tokens_per_step": round(self.emitted / max(1, self.steps), 3),
        }


@torch.no_grad()
def greedy(model: Any, prompt: Sequence[int], new_tokens: int) -> list[int]:
    """The model's greedy continuation, without the end-of-text token that may end it early."""
    tokens = torch.tensor([list(prompt)])
    output = model.generate(
        tokens, attention_mask=torch.ones_like(tokens), max_new_tokens=new_tokens, do_sample=False, use_cache=True
    )
    continuation: list[int] = output[0, len(prompt) :].tolist()
    return continuation[:-1] if continuation and continuation[-1] == model.config.eos_token_id else continuation


def replay(prompt: Sequence[int], text: Sequence[int], drafter: Drafter, draft_length: int) -> Counts:
    """Counts of decoding `text` after `prompt` with the drafter's proposals verified."""
    steps = proposed = accepted = position = 0
    while position < len(text):
        # The step's last token is the target's own, so that drafts beyond the one before last would be wasted.
        drafts = drafter([*prompt, *text[:position]], min(draft_length, len(text) - position - 1))
        matching = 0
        while matching < len(drafts) and drafts[matching] == text[position + matching]:
            matching += 1
        steps, proposed, accepted = steps + 1, proposed + len(drafts), accepted + matching
        position += matching + 1
    return Counts(steps, len(text), proposed, accepted)


def ngram_drafter(longest: int = 4, shortest: int = 2) -> Drafter:
    """Prompt lookup: what followed the most recent earlier occurrence of the longest matching suffix."""

    def draft(context: Sequence[int], count: int) -> list[int]:
        for size in range(longest, shortest - 1, -1):
            suffix = list(context[-size:])
            for start in range(len(context) - size - 1, -1, -1):
                if list(context[start : start + size]) == suffix:
                    return list(context[start + size : start + size + count])
        return []

    return draft


def model_drafter(model: Any) -> Drafter:
    """A draft model's greedy proposals."""

    @torch.no_grad()
    def draft(context: Sequence[int], count: int) -> list[int]:
        tokens = list(context)
        for _ in range(count):
            tokens.append(int(model(torch.tensor([tokens])).logits[0, -1].argmax()))
        return tokens[len(context) :]

    return draft


def repeated_share(text: Sequence[int], size: int = 8) -> float:
    """Share of n-grams of a text that occurred in it before: greedy loops raise it, and acceptance with it."""
    grams = [tuple(text[start : start + size]) for start in range(len(text) - size + 1)]
    return 1.0 - len(set(grams)) / len(grams) if grams else 0.0
