"""What the KV cache reports of itself."""

from dataclasses import dataclass


@dataclass(frozen=True)
class CacheStats:
    """Blocks as they are now; tokens, evictions and releases counted since the start.

    held, cached and blank blocks add up to num_blocks. queried_tokens: prompt tokens of the requests admitted, each
    once, however often it was preempted; hit_tokens: those of them that had keys and values already. evictions: cached
    blocks given up for another request. window_releases: blocks given back because no later token looks at them.
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
    def blank_blocks(self) -> int:
        return self.num_blocks - self.held_blocks - self.cached_blocks

    @property
    def usage(self) -> float:
        """Share of blocks that requests hold, 0 to 1."""
        return self.held_blocks / self.num_blocks
