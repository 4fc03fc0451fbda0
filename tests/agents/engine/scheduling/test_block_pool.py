"""The pool never leaks, never gives a block twice, and never mistakes one prefix for another."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from agents.engine.scheduling.block_pool import BlockPool
from agents.engine.scheduling.sequence import chain_hash

SIZE, BLOCKS = 2, 6


class PoolMachine(RuleBasedStateMachine):
    """Holders take, share and give back blocks in any order; a plain model says what must hold."""

    def __init__(self) -> None:
        super().__init__()
        self.pool = BlockPool(BLOCKS, SIZE)
        self.holders: list[int] = []  # One entry per hold.
        self.content: dict[int, tuple[int, int, tuple[int, ...]]] = {}

    @precondition(lambda self: self.pool.num_free)
    @rule()
    def allocate(self) -> None:
        block = self.pool.allocate()
        assert 1 <= block <= BLOCKS and block not in self.holders
        self.content.pop(block, None)
        self.holders.append(block)

    @precondition(lambda self: self.holders)
    @rule(data=st.data(), parent=st.integers(0, 1), tokens=st.tuples(st.integers(0, 1), st.integers(0, 1)))
    def register(self, data: st.DataObject, parent: int, tokens: tuple[int, int]) -> None:
        block = data.draw(st.sampled_from(self.holders))
        block_hash = chain_hash(parent, tokens)
        known = self.pool.find(block_hash, parent, tokens)
        self.pool.register(block, block_hash, parent, tokens)
        if known is None and block not in self.content:
            self.content[block] = (block_hash, parent, tokens)

    @rule(parent=st.integers(0, 1), tokens=st.tuples(st.integers(0, 1), st.integers(0, 1)))
    def take_up(self, parent: int, tokens: tuple[int, int]) -> None:
        block_hash = chain_hash(parent, tokens)
        block = self.pool.find(block_hash, parent, tokens)
        if block is None:
            assert (block_hash, parent, tokens) not in self.content.values()
        else:
            assert self.content[block] == (block_hash, parent, tokens)
            self.pool.hold(block)
            self.holders.append(block)

    @precondition(lambda self: self.holders)
    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        block = data.draw(st.sampled_from(self.holders))
        self.holders.remove(block)
        self.pool.release([block])

    @rule()
    def reset(self) -> None:
        self.pool.reset_cache()
        self.content.clear()

    @invariant()
    def counts_agree(self) -> None:
        held = set(self.holders)
        assert self.pool.num_held == len(held)
        assert self.pool.num_free == BLOCKS - len(held)
        assert all(self.pool.is_held(block) for block in held)
        self.content = {block: content for block, content in self.content.items() if self.pool.find(*content) == block}


TestPool = PoolMachine.TestCase
TestPool.settings = settings(max_examples=60, stateful_step_count=30, deadline=None, derandomize=True)


def _fill(pool: BlockPool, *contents: tuple[int, ...]) -> list[int]:
    blocks = []
    for tokens in contents:
        block = pool.allocate()
        pool.register(block, chain_hash(0, tokens), 0, tokens)
        blocks.append(block)
    return blocks


def test_least_recently_released_content_is_evicted_first() -> None:
    pool = BlockPool(3, SIZE)
    first, second, third = _fill(pool, (1, 1), (2, 2), (3, 3))
    pool.release([second, first, third])
    assert pool.allocate() == second
    assert pool.find(chain_hash(0, (2, 2)), 0, (2, 2)) is None
    assert pool.find(chain_hash(0, (1, 1)), 0, (1, 1)) == first


def test_blank_blocks_are_given_before_cached_ones() -> None:
    pool = BlockPool(2, SIZE)
    (cached,) = _fill(pool, (1, 1))
    pool.release([cached])
    assert pool.allocate() != cached


def test_an_equal_hash_with_other_tokens_is_not_found() -> None:
    pool = BlockPool(2, SIZE)
    block = pool.allocate()
    pool.register(block, 77, 0, (1, 1))
    assert pool.find(77, 0, (1, 2)) is None
    assert pool.find(77, 5, (1, 1)) is None
