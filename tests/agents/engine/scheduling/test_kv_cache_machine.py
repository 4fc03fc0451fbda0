"""The cache under random traffic: what a layer reads at any place is what that very request's tokens gave.

A model of the memory stands beside the cache: it writes, at each block and slot, which prefix of which request (salt,
group, tokens up to there) gave the keys, and checks on every read that a layer would make that this is what stands
there. So a foreign, stale, missing or null block is found wherever it comes from.
"""

from collections import Counter
from itertools import product
from typing import NamedTuple

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from agents.engine.request.params import SamplingParams
from agents.engine.scheduling.block_pool import NULL_BLOCK, BlockPool
from agents.engine.scheduling.cache_groups import CacheGroup
from agents.engine.scheduling.kv_cache import KvCache
from agents.engine.scheduling.prefix_tree import PrefixRun
from agents.engine.scheduling.request import Request

MOST = 16
"""Tokens of a request at most, prompt and output."""


class Key(NamedTuple):
    """Whose keys and values: the group's layers, after these tokens."""

    group: int
    salt: str | None
    tokens: tuple[int, ...]


windows = st.lists(st.sampled_from([None, None, 1, 2, 3, 4, 5, 8]), min_size=1, max_size=4)
beginnings = st.sampled_from([(1,) * 10, (1,) * 8, (1, 1, 1, 1, 2, 2, 2, 2, 2), (2,) * 5])
endings = st.lists(st.integers(1, 2), max_size=3)
salts = st.sampled_from([None, None, None, None, None, "a"])
chunks = st.sampled_from([None, 1, 2, 5])


class CacheMachine(RuleBasedStateMachine):
    """Requests come, are computed in chunks, decode with drafts, fork, are preempted and end."""

    @initialize(group_windows=windows, size=st.integers(1, 4), spare=st.integers(0, 24), caching=st.integers(0, 4))
    def build(self, group_windows: list[int | None], size: int, spare: int, caching: int) -> None:
        self.size = size
        self.windows = group_windows
        groups = tuple(CacheGroup((number,), window) for number, window in enumerate(group_windows))
        blocks = 1
        while not KvCache(BlockPool(blocks, size), groups).fits(MOST):
            blocks += 1
        self.pool = BlockPool(blocks + spare, size)
        self.cache = KvCache(self.pool, groups, prefix_caching=bool(caching))
        self.waiting: list[Request] = []
        self.running: list[Request] = []
        self.memory: dict[tuple[int, int], Key] = {}
        self.draft_memory: dict[tuple[int, int], Key] = {}

    # What the engine would do with the blocks.

    def _write(self, request: Request, tokens: list[int], start: int) -> None:
        """A forward pass: the tokens from `start` to the end of `tokens`, each looking back through every group."""
        for group, window in enumerate(self.windows):
            table = request.tables[group]
            for place in range(start, len(tokens)):
                block = table[place // self.size]
                assert block != NULL_BLOCK
                self.memory[block, place % self.size] = Key(group, request.salt, tuple(tokens[: place + 1]))
                for seen in range(0 if window is None else max(0, place - window + 1), place + 1):
                    block = table[seen // self.size]
                    assert self.memory[block, seen % self.size] == Key(group, request.salt, tuple(tokens[: seen + 1]))

    @rule(beginning=beginnings, ending=endings, salt=salts, more=st.integers(1, 5), chunk=chunks)
    def arrive(
        self, beginning: tuple[int, ...], ending: list[int], salt: str | None, more: int, chunk: int | None
    ) -> None:
        tokens = [*beginning, *ending]
        request = Request("r", tokens, SamplingParams(min(more, MOST - len(tokens))), salt=salt)
        self.waiting.append(request)
        self._admit(request, chunk)

    @precondition(lambda self: self.waiting)
    @rule(data=st.data(), chunk=chunks)
    def admit(self, data: st.DataObject, chunk: int | None) -> None:
        self._admit(data.draw(st.sampled_from(self.waiting)), chunk)

    def _admit(self, request: Request, chunk: int | None) -> None:
        best = self._longest_hit(request)
        before = self._counts()
        if self.cache.admit(request, chunk):
            assert request.num_computed == best * self.size
            self._begun(request)
        else:
            assert self.running, "alone, a request that fits is admitted"
            assert (self._counts(), request.tables, request.prefix) == (before, [], None)

    @precondition(lambda self: self.running)
    @rule(data=st.data(), extra=st.lists(st.integers(1, 2), min_size=1, max_size=2))
    def fork(self, data: st.DataObject, extra: list[int]) -> None:
        parent = data.draw(st.sampled_from(self.running))
        keep = data.draw(st.integers(1, len(parent.tokens)))
        tokens = [*parent.tokens[:keep], *extra][: MOST - 1]
        child = Request("c", tokens, SamplingParams(1), salt=data.draw(st.sampled_from([parent.salt, None])))
        before = self._counts()
        child.parent = parent
        if self.cache.admit(child):
            whole = keep == len(parent.tokens) and parent.salt == child.salt
            if whole and all(window is None for window in self.windows):
                common = min(parent.num_computed, len(tokens) - 1)
                assert child.num_computed >= common // self.size * self.size, "the parent's full blocks are shared"
            self._begun(child)
        else:
            assert (self._counts(), child.tables, child.prefix) == (before, [], None)

    @precondition(lambda self: self.running)
    @rule(data=st.data(), count=st.sampled_from([1, 3, MOST, MOST]), drafts=st.integers(0, 3), drafts_too=st.booleans())
    def step(self, data: st.DataObject, count: int, drafts: int, drafts_too: bool) -> None:
        """Every running request gets on as far as it can."""
        for request in list(self.running):
            if request.remaining > 1:
                self._prefill(data, request, count, drafts_too)
            else:
                self._decode(data, request, drafts, drafts_too)

    @precondition(lambda self: self.running)
    @rule(data=st.data(), count=st.integers(1, MOST), drafts=st.integers(0, 3), drafts_too=st.booleans())
    def step_of_one(self, data: st.DataObject, count: int, drafts: int, drafts_too: bool) -> None:
        request = data.draw(st.sampled_from(self.running))
        if request.remaining > 1:
            self._prefill(data, request, count, drafts_too)
        else:
            self._decode(data, request, drafts, drafts_too)

    def _prefill(self, data: st.DataObject, request: Request, count: int, drafts_too: bool) -> None:
        count = min(count, request.remaining)
        before = self._counts()
        given = self.cache.grow_prefill(request, count)
        assert 0 <= given <= count
        if all(window is None for window in self.windows):
            assert given == count
        if len(self.running) == 1:
            assert given > 0, "alone, a request always gets on"
        if not given:
            assert self._counts() == before
            return
        end = request.num_computed + given
        self._write(request, request.tokens[:end], request.num_computed)
        if drafts_too:
            self._draft_up_to(request, end)
        request.num_computed = end
        if end == len(request.tokens):
            request.tokens.append(data.draw(st.integers(1, 2)))
        self.cache.computed(request)
        self._retire(request)

    def _decode(self, data: st.DataObject, request: Request, drafts: int, drafts_too: bool) -> None:
        before = self._counts()
        if not self.cache.grow(request, len(request.tokens)):
            assert self._counts() == before
            assert len(self.running) > 1, "alone, a request always gets on"
            return
        drafts = self.cache.grow_for_drafts(request, min(drafts, request.most_tokens - len(request.tokens) - 1))
        drafted = data.draw(st.lists(st.integers(1, 2), min_size=max(0, drafts), max_size=max(0, drafts)))
        self._write(request, request.tokens + drafted, request.num_computed)
        if drafts_too:
            self._draft_up_to(request, len(request.tokens))
        accepted = data.draw(st.integers(0, len(drafted)))
        request.num_computed = len(request.tokens) + accepted
        request.tokens += [*drafted[:accepted], data.draw(st.integers(1, 2))]
        self.cache.computed(request)
        self._retire(request)

    @precondition(lambda self: self.running)
    @rule(data=st.data(), ends=st.booleans())
    def leave(self, data: st.DataObject, ends: bool) -> None:
        """Preempted or ended."""
        request = data.draw(st.sampled_from(self.running))
        self._release(request)
        if not ends:
            self.waiting.append(request)

    @precondition(lambda self: self.cache.stats().cached_blocks > 3)
    @rule(really=st.integers(0, 4))
    def reset(self, really: int) -> None:
        if really != 0:
            return
        self.pool.reset_cache()
        assert self.pool.num_cached == 0

    def _begun(self, request: Request) -> None:
        if request in self.waiting:
            self.waiting.remove(request)
        self.running.append(request)
        assert request.num_computed < len(request.tokens)
        assert 0 <= request.draft_computed <= request.num_computed

    def _retire(self, request: Request) -> None:
        if len(request.tokens) >= request.most_tokens:
            self._release(request)

    def _release(self, request: Request) -> None:
        self.running.remove(request)
        self.cache.release(request)
        assert (request.tables, request.num_computed, request.draft_computed) == ([], 0, 0)

    def _draft_up_to(self, request: Request, end: int) -> None:
        """A draft model that sees everything and keeps its keys in the blocks of the first group."""
        if self.windows[0] is not None:
            return
        for place in range(request.draft_computed, end):
            key = Key(0, request.salt, tuple(request.tokens[: place + 1]))
            self.draft_memory[request.tables[0][place // self.size], place % self.size] = key
        request.draft_computed = end
        self._check_draft(request)

    def _check_draft(self, request: Request) -> None:
        for place in range(request.draft_computed):
            slot = request.tables[0][place // self.size], place % self.size
            assert self.draft_memory[slot] == Key(0, request.salt, tuple(request.tokens[: place + 1]))

    def _counts(self) -> tuple[int, int, int]:
        return self.pool.num_held, self.pool.num_cached, self.pool.evictions

    def _longest_hit(self, request: Request) -> int:
        """By the definition, tried from the longest down: every block that a layer will look at is there."""
        size = self.size
        path: list[list[int]] = []
        run = self.cache._hits.salts.children.get(request.salt)
        while run is not None:
            for number, key in enumerate(run.keys):
                start = len(path) * size
                if key != tuple(request.tokens[start : start + size]):
                    break
                path.append([table[number] for table in run.blocks])
            start = len(path) * size
            whole = len(path) == run.end
            run = run.children.get(tuple(request.tokens[start : start + size])) if whole else None
        for count in range(min(len(path), (len(request.tokens) - 1) // size), 0, -1):
            seen = (
                (group, place // size)
                for group, window in enumerate(self.windows)
                for place in range(0 if window is None else max(0, count * size - window + 1), count * size)
            )
            if all(path[block][group] != NULL_BLOCK for group, block in seen):
                return count
        return 0

    @invariant()
    def every_block_is_in_one_state(self) -> None:
        if not hasattr(self, "pool"):
            return
        stats = self.cache.stats()
        entries = [
            (group, block)
            for one in self.running
            for group, table in enumerate(one.tables)
            for block in table
            if block != NULL_BLOCK
        ]
        assert {block for _, block in entries} == {b for b in range(1, stats.num_blocks + 1) if self.pool.is_held(b)}
        assert len({block for _, block in entries}) == len(set(entries)) == stats.held_blocks, "one group each"
        assert sum(self.pool._holders) == len(entries)
        for group, held in enumerate(stats.held_by_group):
            assert held == len({block for own, block in entries if own == group})
        assert stats.num_blocks - stats.held_blocks - stats.cached_blocks == len(self.pool._blank)

    @invariant()
    def tables_show_what_was_computed(self) -> None:
        if not hasattr(self, "pool"):
            return
        for one, (group, window) in product(self.running, enumerate(self.windows)):
            table, size = one.tables[group], self.size
            first = 0 if window is None else max(0, one.num_computed - window + 1)
            assert all(block == NULL_BLOCK for block in table[: first // size])
            assert all(block != NULL_BLOCK for block in table[first // size :])
            real = [block for block in table if block != NULL_BLOCK]
            assert len(set(real)) == len(real)
            for place in range(first, one.num_computed):
                slot = table[place // size], place % size
                assert self.memory[slot] == Key(group, one.salt, tuple(one.tokens[: place + 1]))
            if self.windows[0] is None:
                self._check_draft(one)

    @invariant()
    def the_tree_holds_what_is_used_and_nothing_else(self) -> None:
        if not hasattr(self, "pool"):
            return
        assert all((one.prefix is not None) == self.cache.prefix_caching for one in self.running)
        contents = {}
        standing = [
            (one.prefix.at(count), count) for one in self.running if one.prefix for count in [one.registered_blocks]
        ]
        for run, salt, tokens in self._runs():
            tables = run.blocks
            assert len(tables) == len(self.windows) and all(len(table) == len(run.keys) for table in tables)
            for place, key in enumerate(run.keys, run.start):
                assert isinstance(key, tuple) and len(key) == self.size
                tokens += key
                for group, table in enumerate(tables):
                    if (block := table[place - run.start]) != NULL_BLOCK:
                        assert block not in contents
                        contents[block] = run, place
                        for seen in range(len(tokens) - self.size, len(tokens)):
                            assert self.memory[block, seen % self.size] == Key(group, salt, tokens[: seen + 1])
            ends = [count for one, count in standing if one is run]
            assert Counter(ends) == run._standing
            if not run.children:
                assert run.end in ends or any(table[-1:] not in ([], [NULL_BLOCK]) for table in tables), (
                    "no use at its end"
                )
        known = {
            block: (content.at(place + 1), place)
            for block, (content, place) in enumerate(zip(self.pool._content, self.pool._place, strict=True))
            if isinstance(content, PrefixRun)
        }
        assert contents == known
        held = sum(self.pool.is_held(block) for block in contents)
        assert len(contents) - held == self.pool.num_cached

    def _runs(self) -> list[tuple[PrefixRun, str | None, tuple[int, ...]]]:
        """With their salts, and the tokens before them."""
        found: list[tuple[PrefixRun, str | None, tuple[int, ...]]] = []
        for salt, top in self.cache._hits.salts.children.items():
            assert salt is None or isinstance(salt, str)
            assert top.start == 0 and not top.keys
            coming = [(top, ())]
            while coming:
                run, tokens = coming.pop()
                found.append((run, salt, tokens))
                tokens += tuple(token for key in run.keys for token in key)  # type: ignore[attr-defined]
                for key, child in run.children.items():
                    assert child.parent is run and child.keys[0] == key and child.start == run.end
                    coming.append((child, tokens))
        return found

    def teardown(self) -> None:
        if not hasattr(self, "pool"):
            return
        for request in list(self.running):
            self._release(request)
        assert self.pool.num_held == 0 and not any(self.pool.held_by_group.values())
        assert len(self.pool._blank) + self.pool.num_cached == self.pool.num_blocks
        self.pool.reset_cache()
        assert not self.cache._hits.salts.children and len(self.pool._blank) == self.pool.num_blocks


TestCache = CacheMachine.TestCase
TestCache.settings = settings(max_examples=150, stateful_step_count=50, deadline=None, derandomize=True)
