"""The blocks of each request, over all cache groups: which it takes up, when it grows, what it gives back.

How the scheduler uses it: `admit`, then before each chunk of the prefill `grow_prefill`, before each decode
`grow` and `grow_for_drafts`; after each step `computed`; at the end or when preempted `release`.

Guarantees:
- What a call cannot give in full it does not take in part, except where it answers how much it gave.
- Before a step, the tables cover every token of it and, of those before, each that a layer still looks at. A window
  group's places before the window of the next token to compute are NULL_BLOCK, their blocks given back.
- A request holds a block that somebody else filled only if salt and all tokens up to the block's end are equal.
- Groups without a window get the blocks of all tokens at admission: chunks after the first need new blocks only for
  window groups. These are taken chunk by chunk, because a window group never needs more at once than its window and a
  chunk; admission wants that much free, but does not reserve it, so a chunk may come out shorter than asked.
- Alone in the pool, a request that `fits` is always admitted and always gets at least one more token.
"""

from bisect import bisect
from dataclasses import dataclass

from agents.engine.scheduling.block_pool import NULL_BLOCK, BlockPool
from agents.engine.scheduling.cache_groups import CacheGroup, blocks_spanned
from agents.engine.scheduling.prefix_hits import Hit, PrefixHits
from agents.engine.scheduling.prefix_tree import PrefixRun
from agents.engine.scheduling.request import Request


@dataclass(frozen=True)
class CacheStats:
    """What the KV cache reports: blocks as they are now; tokens, evictions and releases counted since the start.

    Blocks neither held nor cached are blank. queried_tokens: prompt tokens of the requests admitted, each once, however
    often it was preempted; hit_tokens: those of them that had keys and values already. evictions: cached blocks given
    up for another request. window_releases: blocks given back because no later token looks at them.
    """

    num_blocks: int
    held_blocks: int
    cached_blocks: int
    held_by_group: tuple[int, ...]
    queried_tokens: int
    hit_tokens: int
    evictions: int
    window_releases: int

    @property
    def usage(self) -> float:
        """Share of blocks that requests hold, 0 to 1."""
        return self.held_blocks / self.num_blocks


class KvCache:
    """The pool as the scheduler sees it: requests, not blocks."""

    def __init__(
        self, pool: BlockPool, groups: tuple[CacheGroup, ...], prefix_caching: bool = True, draft_group: int = 0
    ) -> None:
        """prefix_caching False: nothing is kept for later requests; a parent's blocks are still shared. draft_group:
        the group in whose blocks a draft model keeps its own keys and values; one without a window, or it looks in
        vain for what slid out."""
        self.pool, self.groups, self.prefix_caching = pool, groups, prefix_caching
        self._draft_group = draft_group
        self.queried_tokens = 0
        self.hit_tokens = 0
        self.window_releases = 0
        self._full = [number for number, group in enumerate(groups) if group.window is None]
        self._windows = [(number, group.window) for number, group in enumerate(groups) if group.window is not None]
        self._hits = PrefixHits(pool, groups, draft_group)

    @property
    def most_tokens(self) -> int | None:
        """The most tokens, prompt and output, that a request may have (see `fits`); None: any number."""
        if not self._full and self._most_at_once(self.pool.num_blocks + 1, 1) <= self.pool.num_blocks:
            return None
        sizes = range(self.pool.num_blocks * self.pool.block_size + 1)
        return bisect(sizes, False, key=lambda tokens: not self.fits(tokens)) - 1

    def fits(self, tokens: int) -> bool:
        """Whether a request of this many tokens, prompt and output, can ever be served."""
        return self._most_at_once(self.pool.blocks_for(tokens), 1) <= self.pool.num_blocks

    def admit(self, request: Request, chunk: int | None = None) -> bool:
        """Begin a waiting request: take up the cached blocks of its prefix, of which `num_computed` and
        `draft_computed` then tell, and the blocks of all other tokens in groups without a window. False: no room.

        A request with a `parent` that runs shares that one's full blocks, cached or not; the last, partly filled one is
        its own and computed again. Nothing is shared across salts.

        chunk: the most tokens that a step will compute of it (None: all). Call `grow_prefill` before the first chunk
        as before any other.
        """
        if not self._begin(request, self._hits.find(request), chunk):
            return False
        request.parent = None
        return True

    def cached_tokens(self, request: Request) -> int:
        """Tokens that `admit` would find computed now. Takes nothing."""
        return self._hits.find(request).count * self.pool.block_size

    def grow_prefill(self, request: Request, count: int) -> int:
        """Cover the next `count` tokens to compute, or as many as there are blocks for; returns how many, 0 for none.

        Always `count` where no group has a window."""
        start = request.num_computed
        if start + count > request.covered:
            count = min(count, self._coverable(request) - start)
            if count <= 0:
                return 0
            self._extend(request, start + count)
        return count

    def grow(self, request: Request, tokens: int) -> bool:
        """Cover this many tokens; False, and nothing taken, when blocks are missing."""
        if tokens > request.covered:
            if tokens > self._coverable(request):
                return False
            self._extend(request, tokens)
        return True

    def grow_for_drafts(self, request: Request, drafts: int) -> int:
        """Cover the tokens (as `grow` just did) and as many drafts after them as fit; returns how many do."""
        tokens = len(request.tokens)
        if tokens + drafts > request.covered:
            drafts = min(drafts, self._coverable(request) - tokens)
            self._extend(request, tokens + drafts)
        return drafts

    def computed(self, request: Request) -> None:
        """The request has more keys and values than before (`num_computed`): offer its full blocks to later prompts
        and give back what slid out of a window."""
        if request.num_computed >= request.settle_at:
            self._register(request)
            self._mark_drafted(request)
            if self._windows:
                self._slide(request)
            self._set_settle_at(request)

    def release(self, request: Request) -> None:
        """Take back everything; the request starts from its first token when it is admitted again."""
        self._mark_drafted(request)
        tables = request.tables
        if len(tables) == 1 and self._full:
            self.pool.release(reversed(tables[0]))
        else:
            # By place, so that in the order of eviction no group's start comes before another's end.
            longest = max(map(len, tables), default=0)
            self.pool.release(
                table[place]
                for place in range(longest - 1, -1, -1)
                for table in tables
                if place < len(table) and table[place] != NULL_BLOCK
            )
        if request.prefix is not None:
            request.prefix.at(request.registered_blocks).leave(request.registered_blocks)
            request.prefix = None
        request.tables, request.slid = [], []
        request.num_computed = request.draft_computed = request.registered_blocks = request.drafted_blocks = 0

    def stats(self) -> CacheStats:
        """What the cache holds and how it has served so far."""
        pool = self.pool
        return CacheStats(
            num_blocks=pool.num_blocks,
            held_blocks=pool.num_held,
            cached_blocks=pool.num_cached,
            held_by_group=tuple(pool.held_by_group[group] for group in range(len(self.groups))),
            queried_tokens=self.queried_tokens,
            hit_tokens=self.hit_tokens,
            evictions=pool.evictions,
            window_releases=self.window_releases,
        )

    def _most_at_once(self, blocks: int, chunk: int) -> int:
        """Blocks that a request of `blocks` blocks holds at most at a time when computed in chunks of this size."""
        size = self.pool.block_size
        if not self._windows:
            return len(self._full) * blocks
        windows = [min(blocks, blocks_spanned(window - 1 + chunk, size)) for _, window in self._windows]
        return len(self._full) * blocks + sum(windows)

    def _begin(self, request: Request, found: Hit, chunk: int | None) -> bool:
        pool, size = self.pool, self.pool.block_size
        total = pool.blocks_for(len(request.tokens))
        chunk = min(chunk or request.remaining, len(request.tokens) - found.count * size)
        # A chunk that not even the whole pool could hold does not keep a request out: it will be cut.
        while self._windows and chunk > 1 and self._most_at_once(total, chunk) > pool.num_blocks:
            chunk //= 2
        needed = len(self._full) * (total - found.count)
        for (_, window), (_, reach) in zip(self._windows, self._hits.reach, strict=True):
            taken_up = min(found.count, reach)
            most = min(total - found.count + taken_up, blocks_spanned(window - 1 + chunk, size))
            needed += max(0, most - taken_up)
        blocks = found.tables[0]
        if self._windows or len(found.tables) > 1:  # In the order against that of their release.
            blocks = [block for row in zip(*found.tables[::-1], strict=True) for block in row if block != NULL_BLOCK]
        free = pool.num_free
        if needed > free - len(blocks) and needed > free - sum(not pool.is_held(block) for block in blocks):
            return False
        if self.prefix_caching:
            request.prefix = found.prefix or self._hits.salts.salted(request.salt)
            request.prefix.enter(found.count)
        pool.hold(blocks)
        for group in self._full:
            found.tables[group] += pool.allocate_several(total - found.count, group)
        request.tables = found.tables
        request.covered = min(map(len, found.tables)) * size
        request.num_computed = found.count * size
        request.draft_computed = found.drafted * size
        request.registered_blocks, request.drafted_blocks = found.count, found.drafted
        request.slid = [max(0, found.count - reach) for _, reach in self._hits.reach]
        self._set_settle_at(request)
        if request.scheduled_at is None:
            self.queried_tokens += request.prompt_length
            self.hit_tokens += request.num_computed
        return True

    def _coverable(self, request: Request) -> int:
        """Tokens that the request's tables could cover with all free blocks: the shortest tables are filled first."""
        free = self.pool.num_free
        lengths = sorted(map(len, request.tables))
        places = lengths[0]
        for number, following in enumerate([*lengths[1:], None], start=1):
            step = free // number if following is None else min(following - places, free // number)
            places, free = places + step, free - step * number
            if following is not None and places < following:
                break
        return places * self.pool.block_size

    def _extend(self, request: Request, tokens: int) -> None:
        places = self.pool.blocks_for(tokens)
        for group, table in enumerate(request.tables):
            if (missing := places - len(table)) > 0:
                table += self.pool.allocate_several(missing, group)
        request.covered = max(request.covered, places * self.pool.block_size)

    def _register(self, request: Request) -> None:
        """Enter newly filled blocks in the tree. Where another request has filled one with the same tokens meanwhile,
        its block is shared from here on and the own one given back."""
        size = self.pool.block_size
        stood, full = request.registered_blocks, request.num_computed // size
        if request.prefix is not None and full > stood:
            before = run = request.prefix.at(stood)
            place = stood
            keys = list(request.blocks(stood, full, size))
            for run, end in before.follow(stood, keys):
                self._share(request, run, place, end)
                place = end
            if place < full:
                filled = [table[place:full] for table in request.tables]
                run = run.extended(place, keys[place - stood :], filled)
                for blocks in filled:
                    self.pool.register(blocks, run, place)
            if run is (before := before.at(stood)):
                run.move(stood, full)
            else:
                run.enter(full)
                before.leave(stood)
            request.prefix = run
        request.registered_blocks = full

    def _share(self, request: Request, run: PrefixRun, first: int, end: int) -> None:
        """The request has computed what this run holds, or held, at these places."""
        for place in range(first, end):
            for table, known in zip(request.tables, run.blocks, strict=True):
                own, there = table[place], known[place - run.start]
                if there == NULL_BLOCK:
                    known[place - run.start] = own
                    self.pool.register([own], run, place)
                elif request.draft_computed <= place * self.pool.block_size or self.pool.is_drafted(there):
                    self.pool.hold([there])
                    self.pool.release([own])
                    table[place] = there

    def _mark_drafted(self, request: Request) -> None:
        """Remember with the blocks how far the draft model has come, for whoever takes them up."""
        # A draft model may be ahead of the tokens kept: only blocks that hold the request's own tokens count.
        if not request.draft_computed:
            return
        drafted = min(request.draft_computed // self.pool.block_size, request.registered_blocks)
        for place in range(request.drafted_blocks, drafted):
            self.pool.mark_drafted(request.tables[self._draft_group][place])
        request.drafted_blocks = max(request.drafted_blocks, drafted)

    def _slide(self, request: Request) -> None:
        """Give back the blocks that no token from `num_computed` on looks at."""
        size = self.pool.block_size
        for number, (group, window) in enumerate(self._windows):
            first = max(0, request.num_computed - window + 1) // size
            start = request.slid[number]
            if first > start:
                table = request.tables[group]
                self.pool.release(reversed(table[start:first]))
                table[start:first] = [NULL_BLOCK] * (first - start)
                self.window_releases += first - start
                request.slid[number] = first

    def _set_settle_at(self, request: Request) -> None:
        """The next `num_computed` at which a block is full or slides out: nothing is to be done before."""
        size = self.pool.block_size
        settle_at = (request.registered_blocks + 1) * size
        for (_, window), slid in zip(self._windows, request.slid, strict=True):
            settle_at = min(settle_at, (slid + 1) * size + window - 1)
        request.settle_at = settle_at
