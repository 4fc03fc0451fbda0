"""Where prompts that begin alike part, and what that costs: from the block hashes of the request log (pure).

A block's hash stands for all tokens up to its end, so two prompts share exactly the blocks of equal hashes. What lies
behind the first block that differs may be equal again: a cache cannot use it, and hashes cannot show it.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from controlplane.contract.bodies.workload import WorkloadRequest

MOST_REQUESTS = 5_000


@dataclass(frozen=True)
class Divergence:
    """possible_share: of all prompt tokens, what a cache that forgets nothing would have held. position_tokens: where
    most prompts part from all before them, and the share of prompts that do so within that block; computed_tokens: what
    comes behind it in them."""

    requests: int
    possible_share: float
    position_tokens: int
    share_of_requests: float
    computed_tokens: int

    def evidence(self, prefill_s_per_token: float | None) -> dict[str, Any]:
        cost = None if prefill_s_per_token is None else round(self.computed_tokens * prefill_s_per_token, 3)
        return {
            "requests": self.requests,
            "possible_share": round(self.possible_share, 4),
            "position_tokens": self.position_tokens,
            "share_of_requests": round(self.share_of_requests, 4),
            "computed_tokens": self.computed_tokens,
            "costs_s": cost,
        }


def divergence(requests: Sequence[WorkloadRequest], block_size: int) -> Divergence | None:
    """None where the log has no block hashes."""
    known = [one for one in requests if one.hash_ids][-MOST_REQUESTS:]
    if len(known) < 2:
        return None
    seen: set[int] = set()
    parted: Counter[int] = Counter()
    behind: Counter[int] = Counter()
    shared_tokens = 0
    for one in known:
        shared = _shared_blocks(one.hash_ids, seen)
        shared_tokens += shared * block_size
        parted[shared] += 1
        behind[shared] += one.input_length - shared * block_size
        seen.update(one.hash_ids)
    position, count = parted.most_common(1)[0]
    tokens = sum(one.input_length for one in known)
    return Divergence(len(known), shared_tokens / tokens, position * block_size, count / len(known), behind[position])


def _shared_blocks(hashes: Sequence[int], seen: set[int]) -> int:
    for place, block in enumerate(hashes):
        if block not in seen:
            return place
    return len(hashes)
