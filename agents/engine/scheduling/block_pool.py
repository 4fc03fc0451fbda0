"""Paged KV-cache blocks: reference counts, prefix reuse by block hash, least recently used eviction.

Invariants: each block is in exactly one of three states: blank (no holder, no content), cached (no holder, content
that a prompt may take up again), held (one or more holders). Block 0 is the null block that pads block tables; it is
never given out. A block found by hash holds exactly the tokens asked for: they are compared, a hash alone is not
trusted.
"""

from collections import OrderedDict, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

NULL_BLOCK = 0


@dataclass(frozen=True)
class _Content:
    block_hash: int
    parent: int
    tokens: tuple[int, ...]


class BlockPool:
    """num_blocks blocks of block_size tokens each, ids 1 to num_blocks."""

    def __init__(self, num_blocks: int, block_size: int) -> None:
        assert num_blocks > 0 and block_size > 0
        self.num_blocks, self.block_size = num_blocks, block_size
        self._blank: deque[int] = deque(range(1, num_blocks + 1))
        self._cached: OrderedDict[int, None] = OrderedDict()  # Oldest first: the next to be evicted.
        self._holders: dict[int, int] = {}
        self._content: dict[int, _Content] = {}
        self._block_of: dict[int, int] = {}

    @property
    def num_free(self) -> int:
        """Blocks that `allocate` can give, cached ones included."""
        return len(self._blank) + len(self._cached)

    @property
    def num_held(self) -> int:
        return len(self._holders)

    @property
    def usage(self) -> float:
        """Share of blocks held, 0 to 1."""
        return len(self._holders) / self.num_blocks

    def blocks_for(self, tokens: int) -> int:
        """Blocks that hold this many tokens."""
        return -(-tokens // self.block_size)

    def allocate(self) -> int:
        """A block with one holder and no content; evicts the least recently used cached block when none is blank."""
        assert self.num_free > 0, "allocate from an empty pool"
        if self._blank:
            block = self._blank.popleft()
        else:
            block, _ = self._cached.popitem(last=False)
            self._forget(block)
        self._holders[block] = 1
        return block

    def find(self, block_hash: int, parent: int, tokens: Sequence[int]) -> int | None:
        """The block that holds these tokens after that parent, or None. Does not take it."""
        block = self._block_of.get(block_hash)
        if block is None or self._content[block] != _Content(block_hash, parent, tuple(tokens)):
            return None
        return block

    def is_held(self, block: int) -> bool:
        return block in self._holders

    def hold(self, block: int) -> None:
        """One more holder of a cached or held block."""
        if block in self._holders:
            self._holders[block] += 1
        else:
            del self._cached[block]
            self._holders[block] = 1

    def register(self, block: int, block_hash: int, parent: int, tokens: Sequence[int]) -> None:
        """Say what a held, full block contains, for later prompts. The first block with a hash keeps it."""
        assert block in self._holders and len(tokens) == self.block_size
        if block_hash not in self._block_of and block not in self._content:
            self._block_of[block_hash] = block
            self._content[block] = _Content(block_hash, parent, tuple(tokens))

    def release(self, blocks: Iterable[int]) -> None:
        """One holder less of each; give them last to first, so that a prompt's end is evicted before its start."""
        for block in blocks:
            self._holders[block] -= 1
            if self._holders[block]:
                continue
            del self._holders[block]
            if block in self._content:
                self._cached[block] = None
            else:
                self._blank.append(block)

    def reset_cache(self) -> int:
        """Forget all content; returns the number of cached blocks that became blank. Held blocks stay held."""
        count = len(self._cached)
        self._blank.extend(self._cached)
        self._cached.clear()
        self._content.clear()
        self._block_of.clear()
        return count

    def _forget(self, block: int) -> None:
        content = self._content.pop(block)
        del self._block_of[content.block_hash]
