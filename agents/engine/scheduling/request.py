"""One request as the scheduler sees it: its tokens, how many have keys and values, and the blocks that hold them.

Invariants: `num_computed` < len(tokens) while unfinished; blocks cover at least `num_computed` tokens; block hashes are
chained, so that equal hashes mean equal tokens from the start.
"""

import hashlib
from array import array
from collections.abc import Hashable, Iterable, Sequence
from enum import Enum, StrEnum

from agents.engine.request.params import SamplingParams
from agents.engine.request.token_history import TokenHistory
from agents.engine.request.token_logprob import TokenLogprob
from agents.engine.scheduling.prefix_tree import PrefixRun
from agents.engine.speculation.gate import Track
from agents.engine.speculation.ngram import NgramIndex
from controlplane.contract.reports import finish_reasons


class Status(Enum):
    """Where a request stands."""

    WAITING = "waiting"  # Holds no blocks: not yet scheduled, or preempted.
    RUNNING = "running"  # Holds blocks and takes part in steps.
    FINISHED = "finished"  # Holds no blocks and never will again.


class FinishReason(StrEnum):
    """Why a request ended, in the contract's words (see `finish_reasons`)."""

    STOP = finish_reasons.STOP
    LENGTH = finish_reasons.LENGTH
    ABORT = finish_reasons.ABORT
    ERROR = finish_reasons.ERROR
    TIMEOUT = finish_reasons.TIMEOUT
    SHED = finish_reasons.SHED


def chain_hash(parent: int, tokens: Sequence[int]) -> int:
    """64-bit hash of a block's tokens and all before it (parent 0: none)."""
    content = array("q", tokens).tobytes()
    return int.from_bytes(hashlib.blake2b(parent.to_bytes(8, "little") + content, digest_size=8).digest(), "little")


class Request:
    """A request's state. Times are seconds of the engine's monotonic clock, None until they happen."""

    __slots__ = (
        "_block_hashes",
        "arrived_at",
        "cached_tokens",
        "committed_at",
        "committed_outputs",
        "covered",
        "deadline",
        "draft_computed",
        "drafted_blocks",
        "finish_reason",
        "history",
        "is_long",
        "ngrams",
        "num_computed",
        "order",
        "params",
        "parent",
        "prefix",
        "priority",
        "prompt_length",
        "prompt_logprobs",
        "rank",
        "registered_blocks",
        "request_id",
        "salt",
        "scheduled_at",
        "settle_at",
        "slid",
        "status",
        "tables",
        "tenant",
        "tokens",
        "track",
        "urgency",
    )

    def __init__(
        self,
        request_id: str,
        prompt: Sequence[int],
        params: SamplingParams,
        tenant: str | None = None,
        *,
        priority: int = 0,
        arrived_at: float = 0.0,
        deadline: float | None = None,
        salt: str | None = None,
    ) -> None:
        assert prompt and params.max_tokens > 0
        self.request_id = request_id
        self.tokens = list(prompt)
        self.prompt_length = len(self.tokens)
        self.params = params
        self.tenant = tenant
        self.priority = priority
        """Lower is more urgent; see scheduling/policy.py."""
        self.arrived_at = arrived_at
        self.deadline = deadline
        """When it is ended, finished or not; None: never."""
        self.order = 0
        self.is_long = False
        """Whether it waits in the lane for long prompts."""
        self.urgency = 0.0
        self.rank: tuple[float, int] = (0.0, 0)
        """Where it stands among all requests, smallest first; set when it is queued."""
        self.status = Status.WAITING
        self.finish_reason: FinishReason | None = None
        self.num_computed = 0
        self.draft_computed = 0
        self.salt = salt
        """Only requests of equal salt share cached prefixes, so that nobody can tell from timing what others asked."""
        self.tables: list[list[int]] = []
        """Block ids by place in the request, one table per cache group; empty while nothing is held. A place that
        slid out of a group's window is NULL_BLOCK."""
        self.parent: Request | None = None
        """A request that begins with the same tokens and has them computed: while it runs, its blocks are shared at
        admission."""
        # The cache's own notes, see kv_cache.py.
        self.covered = 0
        self.settle_at = 0
        self.slid: list[int] = []
        self.prefix: PrefixRun | None = None
        self.registered_blocks = 0
        self.drafted_blocks = 0
        self.cached_tokens = 0
        self.ngrams: NgramIndex | None = None
        self.track: Track | None = None
        self.history: TokenHistory | None = None
        self.prompt_logprobs: list[TokenLogprob | None] | None = None
        """Of each prompt token so far, where they are asked for; the first has none."""
        self.scheduled_at: float | None = None
        self.committed_at: list[float] = []
        """When steps gave it tokens: the last time that was told of, and those since."""
        self.committed_outputs = 0
        """Output tokens it had at the first of those times."""
        self._block_hashes: list[int] = []

    @property
    def num_outputs(self) -> int:
        return len(self.tokens) - self.prompt_length

    @property
    def remaining(self) -> int:
        """Tokens whose keys and values are still to be computed; 1 is a decode."""
        return len(self.tokens) - self.num_computed

    @property
    def skippable(self) -> int:
        """Tokens from the start that need not be computed where the cache has them: not the last, whose logits give the
        next token, nor those whose logits tell log probabilities of the prompt that are asked for and not known yet."""
        if self.params.prompt_logprobs is not None and len(known := self.prompt_logprobs or ()) < self.prompt_length:
            return max(0, len(known) - 1)
        return len(self.tokens) - 1

    @property
    def most_tokens(self) -> int:
        """Tokens it holds when it ends by length."""
        return self.prompt_length + self.params.max_tokens

    def blocks(self, first: int, end: int, block_size: int) -> Iterable[Hashable]:
        """What tells the tokens of a full block from any others, of those from place `first` up to `end`: equal exactly
        where they are."""
        for start in range(first * block_size, end * block_size, block_size):
            yield tuple(self.tokens[start : start + block_size])

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
