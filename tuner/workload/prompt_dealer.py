"""Which prompt of the user's own stands for which request: by length, cut or joined to fit. Pure.

Guarantee: each request has as many prompt tokens as the traffic's; no prompt begins two before each began one; equal
arguments give equal prompts, another `salt` others. Who shares a prefix with whom is as the prompts have it, not as the
traffic had: blocks that the traffic names are not looked at.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

from controlplane.contract.bodies.workload import Workload, WorkloadRequest
from controlplane.contract.errors import BadRequest
from tuner.workload.trace import hash_id


@dataclass(frozen=True)
class TokenPrompt:
    """A prompt as the engine has it, and how many tokens its answer may have; None: not told."""

    tokens: Sequence[int]
    max_tokens: int | None = None


@dataclass
class PromptDealer:
    """Deals `prompts` (at least one of a token or more) to the requests of workloads, in order of the calls."""

    own: Sequence[TokenPrompt]
    salt: int = 0
    cut: int = field(default=0, init=False)
    """Requests whose prompt was longer than theirs."""
    joined: int = field(default=0, init=False)
    """Requests for which several prompts were put one after another."""
    rounds: int = field(default=1, init=False)
    """How often all were dealt, the last time in part."""

    def __post_init__(self) -> None:
        self.own = [one for one in self.own if one.tokens]
        if not self.own:
            raise BadRequest("prompts: the engine makes no tokens of any of them", field="prompts")
        self._tell = any(one.max_tokens is not None for one in self.own)
        self._left: dict[int, list[int]] = {}
        self._dealt = 0

    def prompts(self, workload: Workload) -> list[list[int]]:
        """One a request, in order."""
        return [self._prompt(request) for request in workload.requests]

    def _prompt(self, request: WorkloadRequest) -> list[int]:
        wanted = request.input_length
        tokens = list(self._next(wanted, request.output_length).tokens)
        self.cut += len(tokens) > wanted
        self.joined += len(tokens) < wanted
        turn = 0
        while len(tokens) < wanted:  # What is put behind it is dealt all the same when its turn comes.
            tokens += self.own[hash_id(self.salt, self._dealt, turn) % len(self.own)].tokens
            turn += 1
        return tokens[:wanted]

    def _next(self, length: int, answer: int) -> TokenPrompt:
        """Of the bucket of that length, or else the nearest, the longer first: one that is long enough where there is
        one, and of these the one whose answer's length is nearest, where it is told."""
        if not self._left:
            self.rounds += self._dealt > 0
            for place in sorted(range(len(self.own)), key=lambda one: hash_id(self.salt, self.rounds, one)):
                self._left.setdefault(_bucket(len(self.own[place].tokens)), []).append(place)
        wanted = _bucket(length)
        bucket = min(self._left, key=lambda one: (abs(one - wanted), -one))
        left, self._dealt = self._left[bucket], self._dealt + 1
        fit = [place for place in left if len(self.own[place].tokens) >= length] or left
        chosen = min(fit, key=lambda place: _apart(self.own[place], answer)) if self._tell else fit[-1]
        left.remove(chosen)
        if not left:
            del self._left[bucket]
        return self.own[chosen]


def _bucket(tokens: int) -> int:
    """Of lengths within twice each other."""
    return tokens.bit_length()


def _apart(prompt: TokenPrompt, answer: int) -> int:
    """How far an answer's length is from what the prompt says, in doublings."""
    return 0 if prompt.max_tokens is None else abs(_bucket(prompt.max_tokens) - _bucket(max(1, answer)))


def repeated_share(prompts: Sequence[Sequence[int]], block_size: int) -> float:
    """Prompt tokens in blocks that an earlier one began with, too / all: what an endless prefix cache would find."""
    seen: set[int] = set()
    shared = total = 0
    for prompt in prompts:
        total += len(prompt)
        blocks = (tuple(prompt[end - block_size : end]) for end in range(block_size, len(prompt) + 1, block_size))
        prefixes = list(accumulate(blocks, lambda before, block: hash((before, block)), initial=0))[1:]
        shared += block_size * next((place for place, one in enumerate(prefixes) if one not in seen), len(prefixes))
        seen.update(prefixes)
    return shared / total if total else 0.0


def described(dealer: PromptDealer, prompts: Sequence[Sequence[int]], block_size: int) -> dict[str, Any]:
    """What was made of a slice's requests."""
    return {
        "requests": len(prompts),
        "cut": dealer.cut,
        "joined": dealer.joined,
        "rounds": dealer.rounds,
        "prefix_share": round(repeated_share(prompts, block_size), 4),
    }


def how_many(requests: int) -> int:
    """Prompts that the engine makes tokens of for slices of so many requests together: some to choose from."""
    return min(max(200, 6 * requests), 2000)


def held_out(place: int, of: int) -> bool:
    """Whether a prompt is kept from replays, for what is asked of quality. place: in a set's own order."""
    return hash_id("held out", place) % 10 == 0 and of >= 50


def drawn(count: int, seed: int, *, quality: bool) -> list[int]:
    """Places of a set of so many, those for replays or those for quality, in the seed's order."""
    own = [place for place in range(count) if held_out(place, count) == quality]
    return sorted(own, key=lambda place: hash_id("drawn", seed, place)) if not quality else own


def enough_of(prompts: Sequence[TokenPrompt], tokens: int) -> list[int]:
    """One after another up to so many tokens; empty where there are fewer."""
    joined = [token for one in prompts for token in one.tokens]
    return joined[:tokens] if len(joined) >= tokens else []
