"""How a model's layers share cache blocks.

A block holds the keys and values of `block_size` tokens for a few layers. Layers that need the same tokens at the same
time form a group and share one block table; a model whose layers all look back to the start is one group, one that
mixes full and sliding-window layers has several, whose tables are filled from the same pool.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class CacheGroup:
    """layers: their numbers in the model, at most as many as a block has room for. window: tokens that the layers look
    back, a token itself included; None: all of them."""

    layers: tuple[int, ...]
    window: int | None = None


def layers_per_block(groups: tuple[CacheGroup, ...]) -> int:
    """Layers a block has room for: the largest group decides, smaller ones leave room unused."""
    return max(len(group.layers) for group in groups)


def blocks_spanned(tokens: int, block_size: int) -> int:
    """Blocks that this many neighbouring tokens touch at most, wherever they start."""
    return (tokens + block_size - 2) // block_size + 1 if tokens else 0
