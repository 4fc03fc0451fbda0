"""One request as the scheduler sees it: its tokens, how many have keys and values, and the blocks that hold them.

Invariants: `num_computed` < len(tokens) while unfinished; blocks cover at least `num_computed` tokens; block hashes are
chained, so that equal hashes mean equal tokens from the start.
"""

import hashlib
from array import array
from collections.abc import Sequence as Items
from enum import Enum, StrEnum

from agents.engine.sampling.params import SamplingParams
from agents.engine.speculation.ngram import NgramIndex


class Status(Enum):
    """Where a sequence stands."""

    WAITING = "waiting"  # Holds no blocks: not yet scheduled, or preempted.
    RUNNING = "running"  # Holds blocks and takes part in steps.
    FINISHED = "finished"  # Holds no blocks and never will again.


class FinishReason(StrEnum):
    """Why a sequence ended."""

    STOP = "stop"  # A stop token or stop string.
    LENGTH = "length"  # max_tokens reached.
    ABORT = "abort"  # The client went away.
    ERROR = "error"  # The engine failed in a step.


def chain_hash(parent: int, tokens: Items[int]) -> int:
    """64-bit hash of a block's tokens and all before it (parent 0: none)."""
    content = array("q", tokens).tobytes()
    return int.from_bytes(hashlib.blake2b(parent.to_bytes(8, "little") + content, digest_size=8).digest(), "little")


class Sequence:
    """A request's state. Times are seconds of the engine's monotonic clock, None until they happen."""

    __slots__ = (
        "_block_hashes",
        "cached_tokens",
        "draft_computed",
        "finish_reason",
        "first_token_at",
        "gaps",
        "gaps_since",
        "last_token_at",
        "ngrams",
        "num_computed",
        "order",
        "params",
        "prompt_length",
        "registered_blocks",
        "request_id",
        "scheduled_at",
        "status",
        "tables",
        "tenant",
        "tokens",
    )

    def __init__(self, request_id: str, prompt: Items[int], params: SamplingParams, tenant: str | None = None) -> None:
        assert prompt and params.max_tokens > 0
        self.request_id = request_id
        self.tokens = list(prompt)
        self.prompt_length = len(self.tokens)
        self.params = params
        self.tenant = tenant
        self.order = 0
        self.status = Status.WAITING
        self.finish_reason: FinishReason | None = None
        self.num_computed = 0
        self.draft_computed = 0
        self.tables: list[list[int]] = []
        """Block ids by place in the sequence, one table per cache group; empty while nothing is held."""
        self.registered_blocks = 0
        self.cached_tokens = 0
        self.ngrams: NgramIndex | None = None
        self.scheduled_at: float | None = None
        self.first_token_at: float | None = None
        self.last_token_at: float | None = None
        self.gaps: list[float] = []
        self.gaps_since = 0.0
        self._block_hashes: list[int] = []

    @property
    def num_outputs(self) -> int:
        return len(self.tokens) - self.prompt_length

    @property
    def remaining(self) -> int:
        """Tokens whose keys and values are still to be computed; 1 is a decode."""
        return len(self.tokens) - self.num_computed

    @property
    def most_tokens(self) -> int:
        """Tokens it holds when it ends by length."""
        return self.prompt_length + self.params.max_tokens

    def block_hashes(self, count: int, block_size: int) -> list[int]:
        """Hashes of the first `count` full blocks."""
        hashes = self._block_hashes
        while len(hashes) < count:
            start = len(hashes) * block_size
            hashes.append(chain_hash(hashes[-1] if hashes else 0, self.tokens[start : start + block_size]))
        return hashes[:count]

    def append(self, token: int) -> FinishReason | None:
        """Add an output token; the reason when it is the last."""
        self.tokens.append(token)
        if token in self.params.stop_token_ids:
            return FinishReason.STOP
        return FinishReason.LENGTH if self.num_outputs >= self.params.max_tokens else None
