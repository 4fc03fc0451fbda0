"""A prefix is found by its tokens alone, and no node outlives its uses."""

from agents.engine.scheduling.block_pool import NULL_BLOCK
from agents.engine.scheduling.prefix_tree import Prefix


class SameHash(int):
    """A token whose hash says nothing."""

    def __hash__(self) -> int:
        return 7


def test_equal_hashes_do_not_make_equal_prefixes() -> None:
    root = Prefix(None, None, 1)
    one = root.extended((SameHash(1), SameHash(2)))
    one.put(0, 5)
    assert hash((SameHash(1), SameHash(3))) == hash((SameHash(1), SameHash(2)))
    assert root.children.get((SameHash(1), SameHash(3))) is None
    assert root.children.get((SameHash(1), SameHash(2))) is one


def test_equal_blocks_after_different_beginnings_are_different_prefixes() -> None:
    root = Prefix(None, None, 1)
    assert root.extended((1, 1)).extended((3, 3)) is not root.extended((2, 2)).extended((3, 3))


def test_a_node_stays_while_a_longer_prefix_or_a_sequence_needs_it() -> None:
    root = Prefix(None, None, 2)
    short = root.extended((1, 1))
    short.put(0, 4)
    long = short.extended((2, 2))
    long.enter()
    short.lose(0)
    assert root.children[1, 1] is short and short.blocks == [NULL_BLOCK, NULL_BLOCK]
    long.leave()
    assert not root.children, "the last use of the long prefix was the last of the short one"


def test_a_shorter_prefix_is_reached_from_a_longer_one() -> None:
    root = Prefix(None, None, 1)
    short = root.extended((1,))
    long = short.extended((2,)).extended((3,))
    assert long.shortened(2) is short and long.shortened(0) is long
