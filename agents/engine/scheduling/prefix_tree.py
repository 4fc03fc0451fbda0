"""Which blocks hold which prefixes: a tree with one node for each run of full blocks from a sequence's start.

Guarantee: two sequences reach the same node only if their salts and all their tokens up to there are equal. A node is
found through its parent by the tokens of its last block, and a dictionary compares keys after it has compared their
hashes; so no two prefixes are ever taken for each other, whatever their hashes. A node lives while it has a block, a
longer prefix, or a sequence that stands on it.
"""

from collections.abc import Hashable

from agents.engine.scheduling.block_pool import NULL_BLOCK


class Prefix:
    """A node. blocks: the block of each cache group that holds its last `block_size` tokens, NULL_BLOCK for none."""

    __slots__ = ("_key", "_uses", "blocks", "children", "parent")

    def __init__(self, parent: "Prefix | None", key: Hashable, groups: int) -> None:
        self.parent, self._key = parent, key
        self.blocks = [NULL_BLOCK] * groups
        self.children: dict[Hashable, Prefix] = {}
        """By the next block's tokens, a tuple; below the topmost node by salt."""
        self._uses = 0  # Blocks, children, and sequences that stand here.

    def extended(self, key: Hashable) -> "Prefix":
        """The child of that key, made where there is none yet; the caller puts it to use at once."""
        child = self.children.get(key)
        if child is None:
            child = self.children[key] = Prefix(self, key, len(self.blocks))
            self._uses += 1
        return child

    def shortened(self, blocks: int) -> "Prefix":
        """The prefix that is this many blocks shorter."""
        prefix = self
        for _ in range(blocks):
            assert prefix.parent is not None
            prefix = prefix.parent
        return prefix

    def put(self, group: int, block: int) -> None:
        """The group had no block here and has this one now."""
        assert self.blocks[group] == NULL_BLOCK
        self.blocks[group] = block
        self._uses += 1

    def lose(self, group: int) -> None:
        """The group's block is given to somebody else."""
        self.blocks[group] = NULL_BLOCK
        self._uses -= 1
        if not self._uses:
            self._go()

    def enter(self) -> None:
        """A sequence stands here: what it computes next will be registered below this node."""
        self._uses += 1

    def leave(self) -> None:
        """One use less; a node without any goes, and so on upwards."""
        self._uses -= 1
        if not self._uses:
            self._go()

    def _go(self) -> None:
        node = self
        while not node._uses and (parent := node.parent) is not None:
            del parent.children[node._key]
            parent._uses -= 1
            node = parent
