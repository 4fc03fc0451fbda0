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
    """What blocks hold, as the one who registered it knows it."""

    def lose(self, group: int, places: list[int]) -> None:
        """The blocks of that group that hold it at these places no longer do."""


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
        self.num_cached = 0
        """Blocks that nobody holds and whose content a prompt may take up again."""
        self._cached: OrderedDict[int, list[int]] = (
            OrderedDict()
        )  # By release, oldest first: each evicted from its end.
        self._releases = 0
        self._holders = [0] * (num_blocks + 1)
        self._group = [0] * (num_blocks + 1)
        self._content: list[Content | None] = [None] * (num_blocks + 1)
        self._place = [0] * (num_blocks + 1)  # In the content.
        self._release = [0] * (num_blocks + 1)  # Of cached blocks: under which they are.
        self._drafted: set[int] = set()

    @property
    def num_free(self) -> int:
        """Blocks that `allocate` can give, cached ones included."""
        return self.num_blocks - self.num_held

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
        blank, holders, groups = self._blank, self._holders, self._group
        blocks = [blank.popleft() for _ in range(min(count, len(blank)))] if blank else []
        if len(blocks) < count:
            blocks += self._evict(count - len(blocks))
        for block in blocks:
            holders[block], groups[block] = 1, group
        self.num_held += count
        self.held_by_group[group] += count
        return blocks

    def hold(self, blocks: Iterable[int]) -> None:
        """One more holder of each of these cached or held blocks."""
        holders, groups, by_group = self._holders, self._group, self.held_by_group
        taken: list[int] = []
        for block in blocks:
            if not holders[block]:
                taken.append(block)
                by_group[groups[block]] += 1
            holders[block] += 1
        if taken:
            self._take_up(taken)

    def register(self, blocks: Sequence[int], content: Content, start: int) -> None:
        """Say that held blocks are full and what they hold, one after another from the place `start` on, so that they
        are worth keeping once nobody holds them."""
        holders, contents, places = self._holders, self._content, self._place
        for place, block in enumerate(blocks, start):
            assert holders[block] and contents[block] is None
            contents[block], places[block] = content, place

    def release(self, blocks: Iterable[int]) -> None:
        """One holder less of each; give them last to first, so that a prompt's end is evicted before its start."""
        holders, groups, contents = self._holders, self._group, self._content
        cached: list[int] = []
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
                self._blank.append(block)
            else:
                cached.append(block)
        self._freed(freed, group)
        if cached:
            cached.reverse()
            self._releases += 1
            self._cached[self._releases] = cached
            self.num_cached += len(cached)
            releases, release = self._release, self._releases
            for block in cached:
                releases[block] = release

    def mark_drafted(self, block: int) -> None:
        """The draft model, too, has computed its keys and values of this block's tokens. Ignored without content."""
        if self._content[block] is not None:
            self._drafted.add(block)

    def is_drafted(self, block: int) -> bool:
        return block in self._drafted

    def reset_cache(self) -> int:
        """Forget all content; returns the number of cached blocks that became blank. Held blocks stay held."""
        count = self.num_cached
        for cached in self._cached.values():
            self._blank.extend(reversed(cached))
        self._cached.clear()
        self.num_cached = 0
        self._forget([block for block, content in enumerate(self._content) if content is not None])
        return count

    def _freed(self, count: int, group: int) -> None:
        self.held_by_group[group] -= count
        self.num_held -= count

    def _take_up(self, blocks: list[int]) -> None:
        """They are no longer cached, but held."""
        self.num_held += len(blocks)
        self.num_cached -= len(blocks)
        release = self._release[blocks[0]]
        cached = self._cached[release]
        if cached[: len(blocks)] == blocks:  # The start of a prompt, mostly.
            del cached[: len(blocks)]
            if not cached:
                del self._cached[release]
            return
        for block in blocks:
            release = self._release[block]
            self._cached[release].remove(block)
            if not self._cached[release]:
                del self._cached[release]

    def _evict(self, count: int) -> list[int]:
        """So many cached blocks, the least recently used first."""
        evicted: list[int] = []
        while (missing := count - len(evicted)) > 0:
            release, cached = next(iter(self._cached.items()))
            evicted += cached[: -missing - 1 : -1]
            del cached[-missing:]
            if not cached:
                del self._cached[release]
        self.num_cached -= count
        self.evictions += count
        self._forget(evicted)
        return evicted

    def _forget(self, blocks: Iterable[int]) -> None:
        """What they hold, of all of which something is known."""
        contents, places, groups = self._content, self._place, self._group
        if self._drafted:
            self._drafted.difference_update(blocks)
        before, group = None, 0
        lost: list[int] = []
        for block in blocks:
            content, contents[block] = contents[block], None
            if content is not before or groups[block] != group:
                if before is not None:
                    before.lose(group, lost)
                before, group, lost = content, groups[block], []
            lost.append(places[block])
        if before is not None:
            before.lose(group, lost)
