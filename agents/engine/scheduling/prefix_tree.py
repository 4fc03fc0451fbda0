"""Which blocks hold which prefixes: a tree with one node for each run of full blocks from a sequence's start.

Guarantee: two sequences reach the same node only if their salts and all their tokens up to there are equal. A node is
found through its parent by the tokens of its last block, and a dictionary compares keys after it has compared their
hashes; so no two prefixes are ever taken for each other, whatever their hashes. A node lives while it has a block, a
longer prefix, or a sequence that stands on it.
"""

from collections.abc import Hashable, Iterable, Sequence

from agents.engine.scheduling.block_pool import NULL_BLOCK


class Prefix:
    """A node. blocks: the block of each cache group that holds its last `block_size` tokens, NULL_BLOCK for none."""

    __slots__ = ("_key", "_only", "_others", "_uses", "blocks", "parent")

    def __init__(self, parent: "Prefix | None", key: Hashable, blocks: list[int], uses: int) -> None:
        """Made by `extended`, but for the topmost."""
        self.parent, self._key, self.blocks = parent, key, blocks
        # Most have one child, for which a dictionary would be more than all the rest.
        self._only: Prefix | None = None
        self._others: dict[Hashable, Prefix] | None = None
        self._uses = uses  # Blocks, children, and sequences that stand here.

    @property
    def children(self) -> dict[Hashable, "Prefix"]:
        """By the next block's tokens, a tuple; below the topmost node by salt. For showing and for tests: a copy."""
        return ({} if self._only is None else {self._only._key: self._only}) | (self._others or {})

    @property
    def has_children(self) -> bool:
        return self._only is not None

    def child(self, key: Hashable) -> "Prefix | None":
        only, others = self._only, self._others
        if only is None or only._key == key:
            return only
        return others.get(key) if others else None

    def salted(self, salt: str | None) -> "Prefix":
        """The child of that salt, without a block; the caller puts it to use at once if it is new."""
        found = self.child(salt)
        if found is None:
            self._add(found := Prefix(self, salt, [NULL_BLOCK] * len(self.blocks), 0))
        return found

    def extended(self, keys: Sequence[Hashable], blocks: Iterable[tuple[int, ...]]) -> list["Prefix"]:
        """New nodes, one below another, the first of which is no child yet. blocks: of each its groups' blocks."""
        node, found, groups = self, [], len(self.blocks)
        for key, own in zip(keys, blocks, strict=True):
            child = Prefix(node, key, list(own), groups)
            if node is self:
                self._add(child)
            else:
                node._only = child
                node._uses += 1
            found.append(child)
            node = child
        return found

    def _add(self, child: "Prefix") -> None:
        if self._only is None:
            self._only = child
        elif self._others is None:
            self._others = {child._key: child}
        else:
            self._others[child._key] = child
        self._uses += 1

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
        self.leave()

    def enter(self) -> None:
        """A sequence stands here: what it computes next will be registered below this node."""
        self._uses += 1

    def leave(self) -> None:
        """One use less; a node without any goes, and so on upwards."""
        self._uses -= 1
        node = self
        while not node._uses and (parent := node.parent) is not None:
            if parent._only is not node:
                assert parent._others is not None
                del parent._others[node._key]
            elif parent._others:
                _, parent._only = parent._others.popitem()
            else:
                parent._only = None
            parent._uses -= 1
            node = parent
