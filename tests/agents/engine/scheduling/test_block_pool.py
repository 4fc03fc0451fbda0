"""The pool never leaks, never gives a block twice, and evicts only what nobody holds, oldest first."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from agents.engine.scheduling.block_pool import NULL_BLOCK, BlockPool

SIZE, BLOCKS, GROUPS = 2, 6, 2


class Note:
    """Content that remembers what it lost, as (group, place), oldest first."""

    def __init__(self) -> None:
        self.lost: list[tuple[int, int]] = []

    def lose(self, group: int, places: list[int]) -> None:
        self.lost += [(group, place) for place in places]


class PoolMachine(RuleBasedStateMachine):
    """Holders take, share and give back blocks in any order; a plain model says what must hold."""

    def __init__(self) -> None:
        super().__init__()
        self.pool = BlockPool(BLOCKS, SIZE)
        self.holders: list[int] = []  # One entry per hold.
        self.content: dict[int, tuple[Note, int]] = {}  # With the place in it.
        self.lost: dict[Note, list[tuple[int, int]]] = {}  # What each must have been told.
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
        self.told()

    def allocated(self, block: int, group: int, blank: int) -> None:
        assert 1 <= block <= BLOCKS and block not in self.holders
        if blank <= 0:
            assert block == self.cached.pop(0), "the least recently used is evicted, and only when none is blank"
            self.loses(block)
            self.drafted.discard(block)
        assert block not in self.content, "a new block has no content"
        self.group[block] = group
        self.holders.append(block)

    @precondition(lambda self: self.holders)
    @rule(data=st.data())
    def register(self, data: st.DataObject) -> None:
        start = data.draw(st.integers(0, 5))
        blocks = [block for block in dict.fromkeys(self.holders) if block not in self.content]
        blocks = blocks[: data.draw(st.integers(0, len(blocks)))]
        known = [note for note, _ in self.content.values()]
        note = data.draw(st.sampled_from(known)) if known and data.draw(st.booleans()) else Note()
        self.content |= {block: (note, place) for place, block in enumerate(blocks, start)}
        self.lost.setdefault(note, [])
        self.pool.register(blocks, note, start)

    def loses(self, block: int) -> None:
        note, place = self.content.pop(block)
        self.lost[note].append((self.group[block], place))

    def told(self) -> None:
        assert all(note.lost == lost for note, lost in self.lost.items())

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
        blocks = data.draw(st.permutations(sorted(self.content)))
        blocks = blocks[: data.draw(st.integers(0, len(blocks)))]
        self.pool.hold(blocks)
        self.holders += blocks
        self.cached = [block for block in self.cached if block not in blocks]

    @precondition(lambda self: self.cached)
    @rule(data=st.data())
    def take_up_again(self, data: st.DataObject) -> None:
        """From the end, where the last release is: as whoever comes back with a longer prompt."""
        blocks = self.cached[: -data.draw(st.integers(1, len(self.cached))) - 1 : -1]
        self.pool.hold(blocks)
        self.holders += blocks
        del self.cached[-len(blocks) :]

    @precondition(lambda self: self.holders)
    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        blocks = data.draw(st.permutations(sorted(set(self.holders))))
        blocks = blocks[: data.draw(st.integers(1, len(blocks)))]
        for block in blocks:
            self.holders.remove(block)
        self.pool.release(blocks)
        self.cached += [block for block in blocks if block in self.content and block not in self.holders]

    @rule()
    def reset(self) -> None:
        assert self.pool.reset_cache() == len(self.cached)
        for block in sorted(self.content):
            self.loses(block)
        self.told()
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
        self.told()


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
    for place, (block, note) in enumerate(zip(blocks, notes, strict=True)):
        pool.register([block], note, place)
        pool.mark_drafted(block)
    pool.release([blocks[1], blocks[0], blocks[2]])
    pool.hold([blocks[0]])
    pool.release([blocks[0]])
    assert (pool.num_cached, pool.evictions) == (3, 0)
    assert [pool.allocate(1) for _ in blocks] == [blocks[1], blocks[2], blocks[0]]
    assert [note.lost for note in notes] == [[(0, 0)], [(1, 1)], [(0, 2)]]
    assert (pool.num_cached, pool.evictions) == (0, 3)
    assert not any(pool.is_drafted(block) for block in blocks)
    pool.release(blocks)
    assert pool.num_cached == 0, "what was evicted is not worth keeping any more"
