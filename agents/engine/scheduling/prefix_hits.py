"""What of a request's start is there already: in the prefix cache, or in the blocks of the request it was forked from.

Guarantee: a hit ends at a block's end, before the first token whose logits are wanted; it has every block that a layer
looks at from there on, in every cache group, and each was filled by tokens and salt equal to the request's own. Takes
nothing: until it is taken up, a hit is good only as long as nothing is allocated.
"""

from dataclasses import dataclass

from agents.engine.scheduling.block_pool import NULL_BLOCK, BlockPool
from agents.engine.scheduling.cache_groups import CacheGroup
from agents.engine.scheduling.prefix_tree import PrefixRun
from agents.engine.scheduling.request import Request


@dataclass(frozen=True)
class Hit:
    """Blocks that hold a request's first `count` blocks: prefix is where they end in the tree (None: none, or no prefix
    cache); drafted: how many of them from the start the draft model has computed too."""

    count: int
    prefix: PrefixRun | None
    tables: list[list[int]]
    drafted: int


class PrefixHits:
    """Looks for a hit. salts: the top of the tree of prefixes."""

    def __init__(self, pool: BlockPool, groups: tuple[CacheGroup, ...], draft_group: int) -> None:
        self.salts = PrefixRun(None, None, 0, [], [[] for _ in groups])
        self.reach = [
            (number, pool.blocks_for(group.window - 1))
            for number, group in enumerate(groups)
            if group.window is not None
        ]
        """Of each window group: how many blocks right before a block's start a token there still looks at."""
        self._pool, self._draft_group, self._groups = pool, draft_group, len(groups)
        self._full = [number for number, group in enumerate(groups) if group.window is None]

    def find(self, request: Request) -> Hit:
        """The longer of what the prefix cache has and what the parent holds."""
        cached = self._cached_prefix(request)
        shared = self._shared_with(request.parent, request) if request.parent else None
        return shared if shared and shared.count > cached.count else cached

    def _cached_prefix(self, request: Request) -> Hit:
        """The longest run of blocks from the start that need not be computed. Groups without a window need all of its
        blocks, the others those that the token after it looks at."""
        size = self._pool.block_size
        top = self.salts.children.get(request.salt)
        tables: list[list[int]] = [[] for _ in range(self._groups)]
        if top is None or not top.children:
            return Hit(0, None, tables, 0)
        run = top
        for run, end in top.follow(0, request.blocks(0, request.skippable // size, size)):
            for table, known in zip(tables, run.blocks, strict=True):
                table += known[: end - run.start]
        count = len(tables[0])
        for group in self._full:
            if NULL_BLOCK in tables[group]:
                count = min(count, tables[group].index(NULL_BLOCK))
        if self.reach:
            count = self._usable_by_windows(tables, count)
        for table in tables:
            del table[count:]
        for group, reach in self.reach:
            tables[group][: max(0, count - reach)] = [NULL_BLOCK] * max(0, count - reach)
        return Hit(count, run.at(count) if count else None, tables, self._drafted_run(tables[self._draft_group]))

    def _usable_by_windows(self, tables: list[list[int]], most: int) -> int:
        """How many blocks from the start, of the first `most`, leave each window group with all that it looks at."""
        count = 0
        runs = [0] * len(self.reach)  # Present blocks of each window group without a gap, up to here.
        for place in range(most):
            usable = True
            for number, (group, reach) in enumerate(self.reach):
                runs[number] = runs[number] + 1 if tables[group][place] != NULL_BLOCK else 0
                usable = usable and runs[number] >= min(place + 1, reach)
            if usable:
                count = place + 1
        return count

    def _shared_with(self, parent: Request, child: Request) -> Hit | None:
        """What a child can share of a running request's own blocks; None where that is nothing."""
        size = self._pool.block_size
        count = min(parent.num_computed, child.skippable) // size
        if not parent.tables or child.salt != parent.salt:
            return None
        if parent.tokens[: count * size] != child.tokens[: count * size]:
            return None
        # A parent that has gone on may have given back what the child would look at.
        for (_, reach), slid in zip(self.reach, parent.slid, strict=True):
            if slid > max(0, count - reach):
                return None
        tables = [table[:count] for table in parent.tables]
        for group, reach in self.reach:
            tables[group][: max(0, count - reach)] = [NULL_BLOCK] * max(0, count - reach)
        prefix = parent.prefix.at(count) if parent.prefix and count else None
        return Hit(count, prefix, tables, min(parent.draft_computed // size, count))

    def _drafted_run(self, table: list[int]) -> int:
        for place, block in enumerate(table):
            if not self._pool.is_drafted(block):
                return place
        return len(table)
