"""A prefix is found by its tokens alone, and no node outlives its uses."""

from hypothesis import given
from hypothesis import strategies as st

from agents.engine.scheduling.block_pool import NULL_BLOCK
from agents.engine.scheduling.prefix_tree import Prefix


class SameHash(int):
    """A token whose hash says nothing."""

    def __hash__(self) -> int:
        return 7


def test_equal_hashes_do_not_make_equal_prefixes() -> None:
    root = Prefix(None, None, [NULL_BLOCK], 0)
    (one,) = root.extended([(SameHash(1), SameHash(2))], [(5,)])
    assert hash((SameHash(1), SameHash(3))) == hash((SameHash(1), SameHash(2)))
    assert root.child((SameHash(1), SameHash(3))) is None
    assert root.child((SameHash(1), SameHash(2))) is one
    (other,) = root.extended([(SameHash(1), SameHash(3))], [(6,)])
    assert root.child((SameHash(1), SameHash(3))) is other
    assert root.child((SameHash(1), SameHash(4))) is None


def test_equal_blocks_after_different_beginnings_are_different_prefixes() -> None:
    root = Prefix(None, None, [NULL_BLOCK], 0)
    one = root.extended([(1, 1), (3, 3)], [(1,), (2,)])
    other = root.extended([(2, 2), (3, 3)], [(3,), (4,)])
    assert root.child((1, 1)) is one[0] and root.child((2, 2)) is other[0]
    assert one[0].child((3, 3)) is one[1] and other[0].child((3, 3)) is other[1]
    assert one[1].blocks == [2] and other[1].blocks == [4]


def test_a_node_stays_while_a_longer_prefix_or_a_sequence_needs_it() -> None:
    root = Prefix(None, None, [NULL_BLOCK] * 2, 0)
    short, long = root.extended([(1, 1), (2, 2)], [(4, 5), (6, 7)])
    long.enter()
    for node in (short, long):
        node.lose(0)
        node.lose(1)
    assert root.children[1, 1] is short and short.blocks == [NULL_BLOCK, NULL_BLOCK]
    long.leave()
    assert not root.children, "the last use of the long prefix was the last of the short one"


def test_a_shorter_prefix_is_reached_from_a_longer_one() -> None:
    root = Prefix(None, None, [NULL_BLOCK], 0)
    short, _, long = root.extended([(1,), (2,), (3,)], [(1,), (2,), (3,)])
    assert long.shortened(2) is short and long.shortened(0) is long


@given(st.lists(st.tuples(st.integers(0, 5), st.booleans()), max_size=40))
def test_children_come_and_go_in_any_order(steps: list[tuple[int, bool]]) -> None:
    root, alive = Prefix(None, None, [NULL_BLOCK], 0), dict[int, Prefix]()
    for key, comes in steps:
        if comes and key not in alive:
            (alive[key],) = root.extended([key], [(key + 1,)])
        elif not comes and key in alive:
            alive.pop(key).lose(0)
        assert root.children == alive and root.has_children == bool(alive)
        assert all(root.child(one) is alive.get(one) for one in range(6))


def test_a_salt_has_one_node() -> None:
    root = Prefix(None, None, [NULL_BLOCK], 0)
    one = root.salted("a")
    assert root.salted("a") is one and root.salted(None) is not one and one.blocks == [NULL_BLOCK]
