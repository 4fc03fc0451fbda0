"""The KV cache by example: hits, sharing, windows, drafts, and what is reported."""

import pytest

from agents.engine.request.params import SamplingParams
from agents.engine.scheduling.block_pool import NULL_BLOCK, BlockPool
from agents.engine.scheduling.cache_groups import CacheGroup, blocks_spanned, layers_per_block
from agents.engine.scheduling.kv_cache import KvCache
from agents.engine.scheduling.request import Request

SIZE = 4


def _cache(blocks: int, *windows: int | None, caching: bool = True) -> KvCache:
    groups = tuple(CacheGroup((number,), window) for number, window in enumerate(windows or (None,)))
    return KvCache(BlockPool(blocks, SIZE), groups, caching)


def _request(tokens: list[int], salt: str | None = None) -> Request:
    return Request("r", tokens, SamplingParams(4), salt=salt)


def _compute(cache: KvCache, request: Request, chunk: int = 10**6) -> None:
    """Prefill to the end, chunk by chunk, and give it one output token."""
    while request.remaining:
        given = cache.grow_prefill(request, min(chunk, request.remaining))
        assert given
        request.num_computed += given
        if not request.remaining:
            request.tokens.append(99)
            cache.computed(request)
            return
        cache.computed(request)


def _fork(cache: KvCache, parent: Request, child: Request) -> bool:
    child.parent = parent
    return cache.admit(child)


def _served(cache: KvCache, tokens: list[int], salt: str | None = None) -> Request:
    """A request that came, was computed and left."""
    request = _request(tokens, salt)
    assert cache.admit(request)
    _compute(cache, request)
    cache.release(request)
    return request


def _real(table: list[int]) -> list[bool]:
    return [block != NULL_BLOCK for block in table]


def test_a_prefix_is_taken_up_without_new_blocks() -> None:
    cache = _cache(10)
    _served(cache, list(range(12)))
    first, second = _request([*range(8), 50, 51]), _request([*range(8), 60])
    assert cache.admit(first) and cache.admit(second)
    assert (first.num_computed, second.num_computed) == (8, 8)
    assert first.tables[0][:2] == second.tables[0][:2] and first.tables[0][2] != second.tables[0][2]
    assert cache.pool.num_held == 4


def test_the_last_token_is_always_computed() -> None:
    cache = _cache(10)
    _served(cache, list(range(8)))
    again = _request(list(range(8)))
    assert cache.admit(again)
    assert again.num_computed == 4, "the logits after the last token are wanted, so its block is not taken up"


def test_equal_tokens_after_another_beginning_are_no_hit() -> None:
    cache = _cache(10)
    _served(cache, [1, 1, 1, 1, 5, 5, 5, 5, 9])
    other = _request([2, 2, 2, 2, 5, 5, 5, 5, 9])
    assert cache.admit(other) and other.num_computed == 0


def test_a_prompt_whose_log_probabilities_are_asked_for_is_computed_until_they_are_known() -> None:
    cache = _cache(20)
    _served(cache, list(range(13)))
    asking = Request("r", list(range(13)), SamplingParams(4, prompt_logprobs=1))
    for known, hit in ((0, 0), (1, 0), (9, 8), (10, 8), (13, 12)):
        asking.prompt_logprobs = [None] * known
        assert cache.admit(asking) and asking.num_computed == hit
        cache.release(asking)


def test_a_salt_keeps_tenants_apart() -> None:
    cache = _cache(20)
    _served(cache, list(range(9)), salt="one")
    for salt, hit in (("two", 0), (None, 0), ("one", 8)):
        request = _request(list(range(9)), salt)
        assert cache.admit(request) and request.num_computed == hit


def test_without_prefix_caching_nothing_is_kept_but_forks_share() -> None:
    cache = _cache(20, caching=False)
    _served(cache, list(range(9)))
    assert cache.stats().cached_blocks == 0
    parent, child = _request(list(range(9))), _request(list(range(9)))
    assert cache.admit(parent) and parent.num_computed == 0
    _compute(cache, parent)
    assert _fork(cache, parent, child) and child.num_computed == 8
    assert child.tables[0][:2] == parent.tables[0][:2]


def test_samples_of_one_prompt_share_all_its_full_blocks() -> None:
    cache = _cache(20)
    parent = _request(list(range(10)))
    assert cache.admit(parent)
    _compute(cache, parent)
    children = [_request(list(range(10))) for _ in range(3)]
    assert all(_fork(cache, parent, child) for child in children)
    assert all(child.num_computed == 8 and child.tables[0][:2] == parent.tables[0][:2] for child in children)
    assert cache.pool.num_held == 2 + 4, "two shared blocks, and the partly filled one of each"
    cache.release(parent)
    assert all(cache.pool.is_held(block) for block in children[0].tables[0]), "the parent may end before its children"


def test_requests_computed_side_by_side_share_one_copy_afterwards() -> None:
    cache = _cache(20, None, 3)
    one, two = _request(list(range(10))), _request(list(range(10)))
    assert cache.admit(one) and cache.admit(two)
    assert two.num_computed == 0 and cache.pool.num_held == 6
    _compute(cache, one)
    _compute(cache, two)
    assert one.tables[0][:2] == two.tables[0][:2] and one.tables[0][2] != two.tables[0][2]
    assert cache.stats().held_by_group == (4, 2), "of the window's blocks only the last is looked at"


def test_a_block_with_draft_keys_is_not_given_up_for_one_without() -> None:
    cache = _cache(20)
    one, two = _request(list(range(10))), _request(list(range(10)))
    assert cache.admit(one) and cache.admit(two)
    _compute(cache, one)
    two.draft_computed = 6  # The whole first block, and half the second.
    _compute(cache, two)
    assert not set(one.tables[0]) & set(two.tables[0])


def test_a_fork_shares_nothing_across_salts_or_beyond_equal_tokens() -> None:
    cache = _cache(20)
    parent = _request(list(range(10)), "one")
    assert cache.admit(parent)
    _compute(cache, parent)
    stranger, other = _request(list(range(10)), "two"), _request([*range(7), 50, 51], "one")
    assert _fork(cache, parent, stranger) and stranger.num_computed == 0
    assert _fork(cache, parent, other) and other.num_computed == 4


def test_a_fork_that_does_not_fit_takes_nothing() -> None:
    cache = _cache(3)
    parent, child = _request(list(range(12))), _request([*range(12), 5])
    assert cache.admit(parent)
    _compute(cache, parent)
    assert not _fork(cache, parent, child)
    assert child.tables == [] and cache.pool.num_held == 3


def test_a_fork_of_a_request_that_has_gone_on_shares_only_what_is_still_there() -> None:
    cache = _cache(20, None, 4, caching=False)
    parent = _request(list(range(16)))
    assert cache.admit(parent)
    _compute(cache, parent)
    early, late = _request([*range(8), 50, 51]), _request([*range(12), 50])
    assert _fork(cache, parent, early) and early.num_computed == 0, "the parent's window begins after the eighth token"
    assert _fork(cache, parent, late) and late.num_computed == 0, "nor has it the three tokens before the thirteenth"
    twin = _request(list(range(18)))
    assert _fork(cache, parent, twin) and twin.num_computed == 16


def test_cached_blocks_of_the_own_prefix_do_not_count_as_room_for_the_rest() -> None:
    cache = _cache(4)
    _served(cache, list(range(9)))
    assert cache.admit(_request([50]))
    assert cache.pool.num_free == 3
    assert not cache.admit(_request(list(range(16)))), "two cached blocks and two more are needed, three are free"
    assert cache.admit(_request(list(range(12))))


def test_the_least_recently_used_prompt_is_evicted_from_its_end() -> None:
    cache = _cache(6)
    _served(cache, [1] * 12)
    _served(cache, [2] * 12)
    newcomer = _request([3] * 8)
    assert cache.admit(newcomer)
    assert cache.stats().evictions == 2
    older, newer = _request([1] * 12), _request([2] * 12)
    assert cache._hits.find(older).count == 1, "the start of the oldest prompt outlives its end"
    assert cache._hits.find(newer).count == 2


def test_a_window_group_gives_back_what_slid_out() -> None:
    cache = _cache(20, None, 6)
    request = _request(list(range(20)))
    assert cache.admit(request, 8)
    _compute(cache, request, 8)
    full, window = request.tables
    assert _real(full) == [True] * 5
    # The next token, at place 20, looks at places 15 to 20.
    assert _real(window) == [False] * 3 + [True] * 2
    assert cache.stats().window_releases == 3 and cache.stats().held_by_group == (5, 2)


def test_a_long_prompt_needs_few_blocks_in_a_small_window() -> None:
    cache = _cache(1 + blocks_spanned(8 - 1 + 8, SIZE), 8)
    request = _request(list(range(4000)))
    assert cache.fits(4004) and cache.admit(request, 8)
    most = 0
    while request.remaining > 8:
        assert cache.grow_prefill(request, 8) == 8
        most = max(most, cache.pool.num_held)
        request.num_computed += 8
        cache.computed(request)
    assert most == 4, "at a block's start: a chunk of two blocks, and the two that its first token looks back at"


def test_admission_wants_a_windows_worst_case_free() -> None:
    cache = _cache(8, None, 5)
    assert cache.admit(_request([1] * 8))  # Two blocks of the full group; nothing yet of the window's.
    # Four of the full group, and for 4 + 4 tokens at most three of the window's.
    assert not cache.admit(_request([2] * 16), 4)
    assert cache.admit(_request([2] * 12), 4)


def test_a_chunk_larger_than_the_pool_is_cut_and_keeps_nobody_out() -> None:
    cache = _cache(6, None, 2)
    request = _request([1] * 16)
    assert cache.admit(request)
    assert cache.grow_prefill(request, 16) == 8, "four blocks of the full group leave two"
    request.num_computed = 8
    cache.computed(request)
    assert cache.grow_prefill(request, 8) == 4, "one of them is in the window still"


def test_a_hit_needs_of_a_window_group_only_its_window() -> None:
    cache = _cache(30, None, 5)
    first = _request(list(range(17)))
    assert cache.admit(first)
    _compute(cache, first, SIZE)
    cache.release(first)
    # What slid out was used least recently: two of its three blocks make room for somebody else.
    while cache.stats().evictions < 2:
        cache.pool.allocate()
    again = _request(list(range(17)))
    found = cache._hits.find(again)
    assert found.count == 4 and _real(found.tables[0]) == [True] * 4
    assert _real(found.tables[1]) == [False, False, False, True]
    assert cache._hits.find(_request(list(range(11)))).count == 0, "its window's blocks are gone"


def test_growth_is_all_or_nothing_over_the_groups() -> None:
    cache = _cache(7, None, None, None)
    request = _request([1] * 8)
    assert cache.admit(request) and cache.pool.num_free == 1
    assert not cache.grow(request, 9)
    assert cache.pool.num_free == 1 and all(len(table) == 2 for table in request.tables)
    assert cache.grow(request, 8)


@pytest.mark.parametrize(("free", "drafts"), [(0, 2), (1, 2), (2, 5), (3, 5)])
def test_drafts_are_cut_to_the_blocks_there_are(free: int, drafts: int) -> None:
    cache = _cache(4 + free, None, 3)
    request = _request([1] * 6)
    assert cache.admit(request) and cache.grow_prefill(request, 6) == 6
    assert cache.grow_for_drafts(request, 5) == drafts


def test_a_hit_tells_how_far_the_draft_model_has_come() -> None:
    cache = _cache(20)
    first = _request(list(range(17)))
    assert cache.admit(first)
    first.num_computed = 17
    first.draft_computed = 9
    first.tokens.append(99)
    cache.computed(first)
    second = _request(list(range(17)))
    assert cache.admit(second)
    assert (second.num_computed, second.draft_computed) == (16, 8)
    second.draft_computed = 16  # The draft model takes in the rest, into blocks that both hold.
    cache.release(second)
    third = _request(list(range(17)))
    assert cache.admit(third) and third.draft_computed == 16


def test_draft_keys_of_dropped_tokens_are_not_taken_for_the_sequences_own() -> None:
    cache = _cache(20)
    request = _request(list(range(7)))
    assert cache.admit(request)
    request.num_computed = 7
    request.draft_computed = 12  # Ahead, over drafts that the request's end cut off.
    cache.release(request)
    again = _request(list(range(13)))
    assert cache.admit(again) and again.draft_computed == 0


def test_a_preempted_request_finds_its_own_blocks_again() -> None:
    cache = _cache(10)
    request = _request(list(range(10)))
    assert cache.admit(request)
    _compute(cache, request)
    cache.release(request)
    assert request.num_computed == 0 and cache.admit(request)
    assert request.num_computed == 8


def test_a_request_goes_on_where_others_branched_off_and_are_gone() -> None:
    cache = _cache(20)
    _served(cache, list(range(16)))
    running = _request([*range(8), *range(50, 62)])
    assert cache.admit(running) and running.num_computed == 8
    _served(cache, [*range(8), *range(60, 68)])
    free = cache.pool.num_free
    taken = cache.pool.allocate_several(free)  # Of the others nothing is left.
    cache.pool.release(taken)
    _compute(cache, running, SIZE)
    cache.release(running)
    assert cache._hits.find(_request([*range(8), *range(50, 63)])).count == 5
    for gone in (list(range(17)), [*range(8), *range(60, 69)]):
        assert cache._hits.find(_request(gone)).count == 2


def test_reset_while_a_request_runs_forgets_what_it_had_computed() -> None:
    cache = _cache(20)
    running = _request(list(range(10)))
    assert cache.admit(running)
    _compute(cache, running)
    cache.pool.reset_cache()
    assert cache._hits.find(_request(list(range(10)))).count == 0
    cache.release(running)
    assert cache.stats().held_blocks == cache.stats().cached_blocks == 0


def test_stats_add_up() -> None:
    cache = _cache(10, None, 4)
    _served(cache, list(range(8)))
    running = _request(list(range(8)))
    assert cache.admit(running)
    stats = cache.stats()
    assert (stats.held_blocks, stats.cached_blocks) == (3, 2)
    assert stats.held_by_group == (2, 1) and stats.usage == 0.3
    assert (stats.queried_tokens, stats.hit_tokens) == (16, 4)


@pytest.mark.parametrize("size", [1, 2, 3, 16])
def test_blocks_spanned_is_the_worst_of_all_starts(size: int) -> None:
    for tokens in range(50):
        worst = max((start + tokens - 1) // size - start // size + 1 if tokens else 0 for start in range(size))
        assert blocks_spanned(tokens, size) == worst


def test_the_largest_group_decides_a_blocks_room() -> None:
    assert layers_per_block((CacheGroup((0, 1, 2)), CacheGroup((3, 4), 8))) == 3


@pytest.mark.parametrize("windows", [(None,), (None, 3), (None, 1, 9), (2, 30), (500, 500)])
@pytest.mark.parametrize("blocks", [1, 2, 7, 40])
def test_most_tokens_is_the_last_number_that_fits(windows: tuple[int | None, ...], blocks: int) -> None:
    cache = _cache(blocks, *windows)
    if (most := cache.most_tokens) is None:
        assert cache.fits(10**9)
    else:
        assert (most == 0 or cache.fits(most)) and not cache.fits(most + 1)


def test_a_window_alone_lets_any_length_through_token_by_token() -> None:
    cache = _cache(blocks_spanned(5, SIZE), 5)
    assert cache.fits(1000) and cache.most_tokens is None
    request = _request([1] * 30)
    assert cache.admit(request)
    while request.remaining:
        given = cache.grow_prefill(request, request.remaining)
        assert given > 0
        request.num_computed += given
        cache.computed(request)


def test_growth_covers_the_token_in_every_group() -> None:
    cache = _cache(10, None, None)
    request = _request([1] * 8)
    assert cache.admit(request) and cache.grow(request, 8) and cache.pool.num_held == 4
    assert cache.grow(request, 9)
    assert [len(table) for table in request.tables] == [3, 3] and cache.pool.num_held == 6
    assert cache.grow(request, 12) and cache.pool.num_held == 6


@pytest.mark.parametrize("spare", [0, 1])
def test_a_hit_in_a_wide_window_wants_the_rest_alone(spare: int) -> None:
    cache = _cache(5 + spare, 100)
    _served(cache, list(range(17)))
    other = _request([50])
    assert cache.admit(other) and cache.grow_prefill(other, 1)
    assert cache.admit(_request(list(range(17)))) == bool(spare), "four blocks are taken up, one is wanted"


def test_a_block_is_offered_as_soon_as_it_is_full() -> None:
    cache = _cache(20)
    first, second = _request(list(range(16))), _request(list(range(16)))
    assert cache.admit(first)
    for computed, offered in ((3, 0), (4, 4), (7, 4), (8, 8), (12, 12)):
        first.num_computed = computed
        cache.computed(first)
        assert cache.cached_tokens(second) == offered
