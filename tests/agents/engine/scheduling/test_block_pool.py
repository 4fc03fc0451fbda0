"""The pool never leaks, never gives a block twice, and evicts only what nobody holds, oldest first."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from agents.engine.scheduling.block_pool import NULL_BLOCK, BlockPool

SIZE, BLOCKS, GROUPS = 2, 3, 2


class Note:
    """Content that remembers the groups whose block it lost."""

    def __init__(self) -> None:
        self.lost: list[int] = []

    def lose(self, group: int) -> None:
        self.lost.append(group)


class PoolMachine(RuleBasedStateMachine):
    """Holders take, share and give back blocks in any order; a plain model says what must hold."""

    def __init__(self) -> None:
        super().__init__()
        self.pool = BlockPool(BLOCKS, SIZE)
        self.holders: list[int] = []  # One entry per hold.
        self.content: dict[int, Note] = {}
        self.group: dict[int, int] = {}
        self.cached: list[int] = []  # The next to be evicted first.
        self.drafted: set[int] = set()

    @precondition(lambda self: self.pool.num_free)
    @rule(data=st.data(), group=st.integers(0, GROUPS - 1))
    def allocate(self, data: st.DataObject, group: int) -> None:
        blank = BLOCKS - len(set(self.holders)) - len(self.cached)
        count = data.draw(st.integers(0, self.pool.num_free))
        for number, block in enumerate(self.pool.allocate_several(count, group)):
            self.allocated(block, group, blank - number)

    def allocated(self, block: int, group: int, blank: int) -> None:
        assert 1 <= block <= BLOCKS and block not in self.holders
        if blank <= 0:
            assert block == self.cached.pop(0), "the least recently used is evicted, and only when none is blank"
            assert self.content.pop(block).lost == [self.group[block]]
            self.drafted.discard(block)
        assert block not in self.content, "a new block has no content"
        self.group[block] = group
        self.holders.append(block)

    @precondition(lambda self: self.holders)
    @rule(data=st.data())
    def register(self, data: st.DataObject) -> None:
        block = data.draw(st.sampled_from(self.holders))
        if block not in self.content:
            self.content[block] = Note()
            self.pool.register([block], [self.content[block]])

    @precondition(lambda self: self.holders)
    @rule(data=st.data())
    def mark_drafted(self, data: st.DataObject) -> None:
        block = data.draw(st.sampled_from(self.holders))
        self.pool.mark_drafted(block)
        if block in self.content:
            self.drafted.add(block)

    @precondition(lambda self: self.content)
    @rule(data=st.data())
    def take_up(self, data: st.DataObject) -> None:
        block = data.draw(st.sampled_from(sorted(self.content)))
        self.pool.hold(block)
        self.holders.append(block)
        if block in self.cached:
            self.cached.remove(block)

    @precondition(lambda self: self.holders)
    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        block = data.draw(st.sampled_from(self.holders))
        self.holders.remove(block)
        self.pool.release([block])
        if block in self.content and block not in self.holders:
            self.cached.append(block)

    @rule()
    def reset(self) -> None:
        assert self.pool.reset_cache() == len(self.cached)
        assert all(note.lost == [self.group[block]] for block, note in self.content.items())
        self.content.clear()
        self.drafted.clear()
        self.cached.clear()

    @invariant()
    def counts_agree(self) -> None:
        held = set(self.holders)
        assert self.pool.num_held == len(held)
        assert self.pool.num_free == BLOCKS - len(held)
        assert self.pool.num_cached == len(self.cached)
        assert all(self.pool.is_held(block) == (block in held) for block in range(BLOCKS + 1))
        assert all(self.pool.is_drafted(block) == (block in self.drafted) for block in range(BLOCKS + 1))
        for group in range(GROUPS):
            assert self.pool.held_by_group[group] == sum(self.group[block] == group for block in held)
        assert all(not note.lost for note in self.content.values()), "only evicted or reset content is lost"


TestPool = PoolMachine.TestCase
TestPool.settings = settings(max_examples=60, stateful_step_count=50, deadline=None, derandomize=True)


def test_releasing_more_often_than_held_fails_at_once() -> None:
    pool = BlockPool(2, SIZE)
    block = pool.allocate()
    pool.release([block])
    with pytest.raises(AssertionError, match="more often"):
        pool.release([block])


def test_the_null_block_can_not_be_given_back() -> None:
    with pytest.raises(AssertionError, match="more often"):
        BlockPool(2, SIZE).release([NULL_BLOCK])


def test_an_empty_pool_gives_nothing() -> None:
    pool = BlockPool(1, SIZE)
    pool.allocate()
    with pytest.raises(AssertionError, match="empty pool"):
        pool.allocate()


def test_tokens_want_whole_blocks_and_usage_is_a_share() -> None:
    pool = BlockPool(10, 4)
    assert [pool.blocks_for(tokens) for tokens in (0, 1, 4, 5)] == [0, 1, 1, 2]
    for _ in range(3):
        pool.allocate()
    assert (pool.usage, pool.evictions) == (0.3, 0)


def test_what_lost_its_last_holder_longest_ago_is_evicted_first_and_its_owner_told() -> None:
    pool = BlockPool(3, SIZE)
    blocks = [pool.allocate(group) for group in (0, 1, 0)]
    notes = [Note() for _ in blocks]
    for block, note in zip(blocks, notes, strict=True):
        pool.register([block], [note])
        pool.mark_drafted(block)
    pool.release([blocks[1], blocks[0], blocks[2]])
    pool.hold(blocks[0])
    pool.release([blocks[0]])
    assert (pool.num_cached, pool.evictions) == (3, 0)
    assert [pool.allocate(1) for _ in blocks] == [blocks[1], blocks[2], blocks[0]]
    assert [note.lost for note in notes] == [[0], [1], [0]]
    assert (pool.num_cached, pool.evictions) == (0, 3)
    assert not any(pool.is_drafted(block) for block in blocks)
    pool.release(blocks)
    assert pool.num_cached == 0, "what was evicted is not worth keeping any more"
