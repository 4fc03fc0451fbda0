"""Paged KV-cache blocks: reference counts, remembered content, least recently used eviction.

Invariants: each block is in exactly one of three states: blank (no holder, no content), cached (no holder, content
that a prompt may take up again), held (one or more holders, with or without content). Block 0 is the null block that
pads block tables; it is never given out and never held. Only unheld blocks are evicted, the one that lost its last
holder longest ago first. Whoever registered content is told when it is lost.
"""

from collections import OrderedDict, defaultdict, deque
from collections.abc import Iterable, Sequence
from typing import Protocol

NULL_BLOCK = 0


class Content(Protocol):
    """What a block holds, as the one who registered it knows it."""

    def lose(self, group: int) -> None:
        """The block of that group no longer holds it."""


class BlockPool:
    """num_blocks blocks of block_size tokens each, ids 1 to num_blocks."""

    def __init__(self, num_blocks: int, block_size: int) -> None:
        assert num_blocks > 0 and block_size > 0
        self.num_blocks, self.block_size = num_blocks, block_size
        self.num_held = 0
        self.evictions = 0
        """Cached blocks whose content was given up for another request, since the start."""
        self.held_by_group: defaultdict[int, int] = defaultdict(int)
        """Held blocks of each cache group."""
        self._blank: deque[int] = deque(range(1, num_blocks + 1))
        self._cached: OrderedDict[int, None] = OrderedDict()  # Oldest first: the next to be evicted.
        self._holders = [0] * (num_blocks + 1)
        self._group = [0] * (num_blocks + 1)
        self._content: list[Content | None] = [None] * (num_blocks + 1)
        self._drafted: set[int] = set()

    @property
    def num_free(self) -> int:
        """Blocks that `allocate` can give, cached ones included."""
        return self.num_blocks - self.num_held

    @property
    def num_cached(self) -> int:
        """Blocks that nobody holds and whose content a prompt may take up again."""
        return len(self._cached)

    @property
    def usage(self) -> float:
        """Share of blocks held, 0 to 1."""
        return self.num_held / self.num_blocks

    def blocks_for(self, tokens: int) -> int:
        """Blocks that hold this many tokens."""
        return -(-tokens // self.block_size)

    def is_held(self, block: int) -> bool:
        return self._holders[block] > 0

    def allocate(self, group: int = 0) -> int:
        """A block with one holder and no content; evicts the least recently used cached block when none is blank."""
        (block,) = self.allocate_several(1, group)
        return block

    def allocate_several(self, count: int, group: int = 0) -> list[int]:
        """So many blocks, as `allocate` gives one after another."""
        assert count <= self.num_free, "allocate from an empty pool"
        blank, cached, holders, groups = self._blank, self._cached, self._holders, self._group
        blocks = [blank.popleft() for _ in range(min(count, len(blank)))]
        if evicted := count - len(blocks):
            fallen = [cached.popitem(last=False)[0] for _ in range(evicted)]
            self._forget(fallen)
            blocks += fallen
            self.evictions += evicted
        for block in blocks:
            holders[block], groups[block] = 1, group
        self.num_held += count
        self.held_by_group[group] += count
        return blocks

    def hold(self, block: int) -> None:
        """One more holder of a cached or held block."""
        if self._holders[block]:
            self._holders[block] += 1
        else:
            del self._cached[block]
            self._holders[block] = 1
            self.num_held += 1
            self.held_by_group[self._group[block]] += 1

    def register(self, blocks: Sequence[int], contents: Sequence[Content]) -> None:
        """Say that held blocks are full and what each holds, so that they are worth keeping once nobody holds them."""
        for block, content in zip(blocks, contents, strict=True):
            assert self._holders[block] and self._content[block] is None
            self._content[block] = content

    def release(self, blocks: Iterable[int]) -> None:
        """One holder less of each; give them last to first, so that a prompt's end is evicted before its start."""
        holders, groups, contents = self._holders, self._group, self._content
        cached, blank = self._cached, self._blank
        freed, group = 0, 0  # Of this group: those of one mostly come together.
        for block in blocks:
            left = holders[block] - 1
            assert left >= 0, "released more often than held"
            holders[block] = left
            if left:
                continue
            if groups[block] != group:
                self._freed(freed, group)
                freed, group = 0, groups[block]
            freed += 1
            if contents[block] is None:
                blank.append(block)
            else:
                cached[block] = None
        self._freed(freed, group)

    def mark_drafted(self, block: int) -> None:
        """The draft model, too, has computed its keys and values of this block's tokens. Ignored without content."""
        if self._content[block] is not None:
            self._drafted.add(block)

    def is_drafted(self, block: int) -> bool:
        return block in self._drafted

    def reset_cache(self) -> int:
        """Forget all content; returns the number of cached blocks that became blank. Held blocks stay held."""
        count = len(self._cached)
        self._blank.extend(self._cached)
        self._cached.clear()
        self._forget([block for block, content in enumerate(self._content) if content is not None])
        return count

    def _freed(self, count: int, group: int) -> None:
        self.held_by_group[group] -= count
        self.num_held -= count

    def _forget(self, blocks: Iterable[int]) -> None:
        """What they hold, of all of which something is known."""
        contents, groups = self._content, self._group
        if self._drafted:
            self._drafted.difference_update(blocks)
        for block in blocks:
            content, contents[block] = contents[block], None
            assert content is not None
            content.lose(groups[block])
