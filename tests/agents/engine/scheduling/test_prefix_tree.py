"""A prefix is found by its tokens alone, however its runs were divided, and nothing outlives its uses."""

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from agents.engine.scheduling.block_pool import NULL_BLOCK
from agents.engine.scheduling.prefix_tree import PrefixRun


class SameHash(int):
    """A token whose hash says nothing."""

    def __hash__(self) -> int:
        return 7


def _salt(groups: int = 1) -> PrefixRun:
    return PrefixRun(None, None, 0, [], [[] for _ in range(groups)]).salted(None)


def _found(salt: PrefixRun, keys: list[object]) -> int:
    """Of how many of these keys, from the start, something is known."""
    found = salt.follow(0, keys)
    return found[-1][1] if found else 0


def test_equal_hashes_do_not_make_equal_prefixes() -> None:
    salt = _salt()
    salt.extended(0, [(SameHash(1), SameHash(2))], [[5]])
    assert hash((SameHash(1), SameHash(3))) == hash((SameHash(1), SameHash(2)))
    assert _found(salt, [(SameHash(1), SameHash(3))]) == 0
    assert _found(salt, [(SameHash(1), SameHash(2))]) == 1
    salt.extended(0, [(SameHash(1), SameHash(3))], [[6]])
    ((run, _),) = salt.follow(0, [(SameHash(1), SameHash(3))])
    assert run.blocks == [[6]]
    assert _found(salt, [(SameHash(1), SameHash(4))]) == 0


def test_equal_blocks_after_different_beginnings_are_different_prefixes() -> None:
    salt = _salt()
    salt.extended(0, [1, 3], [[1, 2]])
    salt.extended(0, [2, 3], [[3, 4]])
    assert [run.blocks for run, _ in salt.follow(0, [1, 3])] == [[[1, 2]]]
    assert [run.blocks for run, _ in salt.follow(0, [2, 3])] == [[[3, 4]]]


def test_a_run_is_divided_where_another_branches_off_and_places_are_still_found() -> None:
    salt = _salt()
    whole = salt.extended(0, [1, 2, 3], [[1, 2, 3]])
    assert whole.extended(3, [4], [[4]]) is whole and whole.end == 4, "nothing branches off: it grows"
    branch = whole.extended(2, [5], [[5]])
    assert whole.at(3) is whole and whole.at(2) is whole.at(1) is branch.parent
    assert [(run.blocks, end) for run, end in salt.follow(0, [1, 2, 3, 4, 9])] == [([[1, 2]], 2), ([[3, 4]], 4)]
    assert [(run.blocks, end) for run, end in salt.follow(0, [1, 2, 5])] == [([[1, 2]], 2), ([[5]], 3)]
    assert [(run, end) for run, end in whole.at(2).follow(1, [2, 3])] == [(whole.at(2), 2), (whole, 3)]


def test_no_more_keys_are_taken_than_compared() -> None:
    salt = _salt()
    salt.extended(0, [1, 2, 3, 4], [[1, 2, 3, 4]])
    keys = iter([1, 2, 7, 8, 9])
    assert _found(salt, keys) == 2 and list(keys) == [8, 9]  # type: ignore[arg-type]


def test_a_place_stays_while_a_longer_prefix_or_a_sequence_needs_it() -> None:
    salt = _salt(groups=2)
    salt.enter(0)
    run = salt.extended(0, [1, 2], [[4, 5], [6, 7]])
    run.enter(2)
    for group in range(2):
        run.lose(group, [0, 1])
    assert run.keys == [1, 2] and run.blocks == [[NULL_BLOCK] * 2] * 2
    run.leave(2)
    assert not run.keys and not salt.children, "the last use of the long prefix was the last of the short one"
    assert salt.parent is not None and list(salt.parent.children) == [None]
    salt.leave(0)
    assert not salt.parent.children


def test_a_salt_has_one_run() -> None:
    top = PrefixRun(None, None, 0, [], [[]])
    one = top.salted("a")
    assert top.salted("a") is one and top.salted(None) is not one and one.blocks == [[]]


Prefix = tuple[int, ...]


class Plain:
    """The same with one entry for each prefix: its blocks, one of each group, and those who stand there."""

    def __init__(self, groups: int) -> None:
        self.blocks: dict[Prefix, list[int]] = {}
        self.standing: Counter[Prefix] = Counter()
        self.groups = groups

    def known(self, keys: Prefix) -> int:
        return max(count for count in range(len(keys) + 1) if not count or keys[:count] in self.blocks)

    def lose(self, group: int, prefix: Prefix) -> None:
        self.blocks[prefix][group] = NULL_BLOCK
        self.clear()

    def clear(self) -> None:
        """Longest first."""
        for prefix in sorted(self.blocks, key=len, reverse=True):
            longer = any(other[:-1] == prefix for other in self.blocks)
            if not longer and not self.standing[prefix] and not any(self.blocks[prefix]):
                del self.blocks[prefix]


def _entries(run: PrefixRun, before: Prefix = ()) -> dict[Prefix, list[int]]:
    found: dict[Prefix, list[int]] = {}
    assert run.start == len(before) and all(len(table) == len(run.keys) for table in run.blocks)
    for place, key in enumerate(run.keys):
        before = (*before, key)  # type: ignore[arg-type]
        found[before] = [table[place] for table in run.blocks]
    for key, child in run.children.items():
        assert child.parent is run and child.keys[0] == key
        found |= _entries(child, before)
    return found


@settings(max_examples=500)
@given(st.data(), st.integers(1, 2))
def test_runs_are_what_single_entries_would_be(data: st.DataObject, groups: int) -> None:
    salt, plain = _salt(groups), Plain(groups)
    salt.enter(0)
    sequences: list[tuple[PrefixRun, Prefix]] = []
    placed: dict[int, tuple[PrefixRun, Prefix]] = {}  # By block: what it was registered with.
    groups_of: dict[int, int] = {}
    last_block = 0
    for _ in range(data.draw(st.integers(1, 25))):
        action = data.draw(st.sampled_from(["begin", "grow", "grow", "leave", "lose", "lose", "lose the end"]))
        if action == "begin":
            keys = tuple(data.draw(st.lists(st.integers(1, 3), max_size=5)))
            count = plain.known(keys)
            run, end = (salt.follow(0, keys) or [(salt, 0)])[-1]
            assert end == count
            sequences.append((run, keys[:count]))
            run.at(count).enter(count)
            plain.standing[keys[:count]] += 1
        elif action == "grow" and sequences:
            run, prefix = sequences.pop(data.draw(st.integers(0, len(sequences) - 1)))
            keys = tuple(data.draw(st.lists(st.integers(1, 3), min_size=1, max_size=5)))
            count, end = len(prefix), len(prefix + keys)
            before = run.at(count)
            after, place = (before.follow(count, keys) or [(before, count)])[-1]
            assert place == plain.known(prefix + keys)
            if place < end:
                own = [
                    [last_block + group * 10 + number for number in range(1, end - place + 1)]
                    for group in range(groups)
                ]
                last_block += 20
                after = after.extended(place, list(keys[place - count :]), [list(table) for table in own])
                for group, table in enumerate(own):
                    for number, block in enumerate(table):
                        placed[block], groups_of[block] = (after, (prefix + keys)[: place + number + 1]), group
                for number in range(end - place):
                    plain.blocks[(prefix + keys)[: place + number + 1]] = [table[number] for table in own]
            if (before := before.at(count)) is after:
                after.move(count, end)
            else:
                after.enter(end)
                before.leave(count)
            plain.standing[prefix] -= 1
            plain.standing[prefix + keys] += 1
            plain.clear()
            sequences.append((after, prefix + keys))
        elif action == "leave" and sequences:
            run, prefix = sequences.pop(data.draw(st.integers(0, len(sequences) - 1)))
            run.at(len(prefix)).leave(len(prefix))
            plain.standing[prefix] -= 1
            plain.clear()
        elif placed and action in ("lose", "lose the end"):
            block = data.draw(st.sampled_from(sorted(placed)))
            run, prefix = placed[block]
            lost = [block]
            if action == "lose the end":  # All of those registered with it that are left, from the end on.
                lost = [
                    other for other, (one, _) in placed.items() if one is run and groups_of[other] == groups_of[block]
                ]
                lost = sorted(lost, key=lambda other: -len(placed[other][1]))
            run.lose(groups_of[block], [len(placed[other][1]) - 1 for other in lost])
            for other in lost:
                plain.lose(groups_of[other], placed.pop(other)[1])
        assert _entries(salt) == plain.blocks
    for run, prefix in sequences:
        run.at(len(prefix)).leave(len(prefix))
    for block, (run, prefix) in placed.items():
        run.lose(groups_of[block], [len(prefix) - 1])
    assert not salt.children
