"""The blocks of each request: which it takes up, when it grows, what it gives back.

Guarantee: a request's tables cover every token with keys and values; what a call cannot give in full it does not take
in part; a prompt's cached prefix is taken up without copying.
"""

from agents.engine.scheduling.block_pool import BlockPool
from agents.engine.scheduling.cache_groups import CacheGroup
from agents.engine.scheduling.sequence import Sequence


class KvCache:
    """The pool as the scheduler sees it: requests, not blocks."""

    def __init__(self, pool: BlockPool, groups: tuple[CacheGroup, ...]) -> None:
        self.pool, self.groups = pool, groups

    def fits(self, tokens: int) -> bool:
        """Whether a request of this many tokens, prompt and output, can ever be served."""
        return len(self.groups) * self.pool.blocks_for(tokens) <= self.pool.num_blocks

    def admit(self, sequence: Sequence) -> bool:
        """Give a waiting request the blocks of all its tokens, cached ones of its prefix first; False: no room."""
        found = self._cached_prefix(sequence)
        needed = self.pool.blocks_for(len(sequence.tokens)) - len(found)
        if needed > self.pool.num_free - sum(not self.pool.is_held(block) for block in found):
            return False
        for block in found:
            self.pool.hold(block)
        sequence.tables = [found + [self.pool.allocate() for _ in range(needed)]]
        sequence.registered_blocks = len(found)
        sequence.num_computed = len(found) * self.pool.block_size
        return True

    def grow(self, sequence: Sequence, tokens: int) -> bool:
        """Cover this many tokens; False, and nothing taken, when blocks are missing."""
        needed = self.pool.blocks_for(tokens) - len(sequence.tables[0])
        if needed > self.pool.num_free:
            return False
        sequence.tables[0] += [self.pool.allocate() for _ in range(needed)]
        return True

    def grow_for_drafts(self, sequence: Sequence, drafts: int) -> int:
        """Cover the tokens and as many drafts after them as fit; returns how many do."""
        room = (len(sequence.tables[0]) + self.pool.num_free) * self.pool.block_size - len(sequence.tokens)
        drafts = min(drafts, room)
        covered = self.grow(sequence, len(sequence.tokens) + drafts)
        assert covered
        return drafts

    def computed(self, sequence: Sequence) -> None:
        """The request has more keys and values than before: offer its full blocks to later prompts."""
        size = self.pool.block_size
        full = sequence.num_computed // size
        if full > sequence.registered_blocks:
            hashes = sequence.block_hashes(full, size)
            for index in range(sequence.registered_blocks, full):
                tokens = sequence.tokens[index * size : (index + 1) * size]
                block, parent = sequence.tables[0][index], hashes[index - 1] if index else 0
                self.pool.register(block, hashes[index], parent, tokens)
            sequence.registered_blocks = full

    def release(self, sequence: Sequence) -> None:
        """Take back everything; the request starts from its first token when it is admitted again."""
        for table in sequence.tables:
            self.pool.release(reversed(table))
        sequence.tables = []
        sequence.num_computed = sequence.draft_computed = sequence.registered_blocks = 0

    def _cached_prefix(self, sequence: Sequence) -> list[int]:
        """Cached blocks from the start, short of the last token at least: it must be computed for its logits."""
        size = self.pool.block_size
        found: list[int] = []
        parent = 0
        for index in range((len(sequence.tokens) - 1) // size):
            block_hash = sequence.block_hashes(index + 1, size)[index]
            block = self.pool.find(block_hash, parent, sequence.tokens[index * size : (index + 1) * size])
            if block is None:
                break
            found.append(block)
            parent = block_hash
        return found
