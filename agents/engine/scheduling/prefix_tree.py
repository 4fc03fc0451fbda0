"""Which blocks hold which prefixes: a radix tree, with a node for each run of full blocks that nothing branches off.

Guarantee: two sequences reach the same place only if their salts and all their tokens up to there are equal. A run is
found through its parent by the tokens of its first block, and followed by comparing the tokens of each: no two prefixes
are ever taken for each other, whatever their hashes. A place is known while it has a block, a longer prefix, or a
sequence that stands on it.

Whoever keeps a run keeps it with a place in it, and asks `at` where that place is now: a run is divided where another
sequence branches off.
"""

from collections.abc import Hashable, Iterable

from agents.engine.scheduling.block_pool import NULL_BLOCK


class PrefixRun:
    """A node: of all sequences that come through here, the blocks after the first `start`.

    keys: what tells the tokens of each block; blocks: of each cache group those that hold them, NULL_BLOCK for none.
    children: what follows after the last, by its first key; below the topmost by salt.
    """

    __slots__ = ("_key", "_standing", "blocks", "children", "keys", "parent", "start")

    def __init__(
        self, parent: "PrefixRun | None", key: Hashable, start: int, keys: list[Hashable], blocks: list[list[int]]
    ) -> None:
        """key: by which the parent has it. Made by `extended`, but for the topmost ones, which have no blocks."""
        self.parent, self._key, self.start, self.keys, self.blocks = parent, key, start, keys, blocks
        self.children: dict[Hashable, PrefixRun] = {}
        self._standing: dict[int, int] = {}  # Sequences that end here, by how many blocks they have.
        if parent is not None:
            parent.children[key] = self

    @property
    def end(self) -> int:
        """Blocks of a sequence that has all of these."""
        return self.start + len(self.keys)

    def salted(self, salt: str | None) -> "PrefixRun":
        """The child of that salt; the caller puts it to use at once if it is new."""
        return self.children.get(salt) or PrefixRun(self, salt, 0, [], [[] for _ in self.blocks])

    def at(self, count: int) -> "PrefixRun":
        """Where a sequence that came here has the last of its first `count` blocks."""
        run = self
        while run.start >= count > 0:
            assert run.parent is not None
            run = run.parent
        return run

    def follow(self, count: int, keys: Iterable[Hashable]) -> list[tuple["PrefixRun", int]]:
        """Where the blocks with these keys are that come after the first `count`, which end in this run, as far as they
        are known: run by run, with the count at the end of each. Takes no more keys than it compares."""
        run, coming = self, iter(keys)
        found: list[tuple[PrefixRun, int]] = []
        before = count
        while True:
            for own, key in zip(run.keys[count - run.start :], coming, strict=False):
                if own != key:
                    break
                count += 1
            if count > before:
                found.append((run, count))
            if not run.children or count < run.end:
                return found
            child = run.children.get(next(coming, None))
            if child is None:
                return found
            run, before = child, count
            count += 1

    def extended(self, count: int, keys: list[Hashable], blocks: list[list[int]]) -> "PrefixRun":
        """Make known what comes after the first `count` blocks, which end in this run: nothing that was known begins
        with the first of these keys. Where the new ones are."""
        run = self._divided(count) if count < self.end else self
        if run.children or not run.keys:
            return PrefixRun(run, keys[0], count, keys, blocks)
        run.keys += keys
        for table, own in zip(run.blocks, blocks, strict=True):
            table += own
        return run

    def lose(self, group: int, places: list[int]) -> None:
        """The group's blocks at these places of a sequence that came here are given to somebody else."""
        end, count = self.start + len(self.keys), len(places)
        if (
            not (self.children or self._standing)
            and len(self.blocks) == 1
            and count <= len(self.keys)
            and places == list(range(end - 1, end - 1 - count, -1))
        ):
            del self.keys[-count:], self.blocks[0][-count:]
            self._shorten()
            return
        for place in places:
            run = self.at(place + 1)
            run.blocks[group][place - run.start] = NULL_BLOCK
            run._shorten()

    def enter(self, count: int) -> None:
        """A sequence stands here, at the end of its first `count` blocks: what it computes next will follow on them."""
        self._standing[count] = self._standing.get(count, 0) + 1

    def leave(self, count: int) -> None:
        """It does no more."""
        self._unstand(count)
        self._shorten()

    def move(self, count: int, to: int) -> None:
        """It stands farther on in this run."""
        self._unstand(count)
        self.enter(to)

    def _unstand(self, count: int) -> None:
        standing = self._standing
        if standing[count] > 1:
            standing[count] -= 1
        else:
            del standing[count]

    def _divided(self, count: int) -> "PrefixRun":
        """The first part, up to there, of two. This one becomes the second."""
        cut = count - self.start
        first = PrefixRun(self.parent, self._key, self.start, self.keys[:cut], [table[:cut] for table in self.blocks])
        self.parent, self._key, self.start = first, self.keys[cut], count
        self.keys, self.blocks = self.keys[cut:], [table[cut:] for table in self.blocks]
        first.children[self._key] = self
        for stood in [stood for stood in self._standing if stood <= count]:
            first._standing[stood] = self._standing.pop(stood)
        return first

    def _shorten(self) -> None:
        """Forget what is of no use at the end, and so on upwards."""
        run = self
        while not run.children:
            keys, standing = run.keys, run._standing
            while keys:
                if run.start + len(keys) in standing:
                    return
                for table in run.blocks:
                    if table[-1] != NULL_BLOCK:
                        return
                keys.pop()
                for table in run.blocks:
                    table.pop()
            if standing or run.parent is None:
                return
            del run.parent.children[run._key]
            run = run.parent
