"""The paged cache as tensors: which page tensor and which block table each layer uses.

A cache group's layers share a block table; page tensor j holds the j-th layer of every group, at the blocks that the
group's own table names. Different groups never share a block, so their layers may share a page tensor.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from agents.engine.model.config import ModelConfig
from agents.engine.scheduling.cache_groups import CacheGroup, layers_per_block


@dataclass(frozen=True)
class View:
    """What a layer sees of the cache: the table of a cache group, and how far back (None: to the start)."""

    group: int
    window: int | None


@dataclass(frozen=True)
class Pages:
    """tensors: (blocks, block size, 2, kv heads, head dim) each; views and places: of each layer, the latter in
    `tensors`."""

    tensors: tuple[Tensor, ...]
    views: tuple[View, ...]
    places: tuple[int, ...]

    @property
    def distinct_views(self) -> tuple[View, ...]:
        return tuple(dict.fromkeys(self.views))

    @property
    def num_groups(self) -> int:
        return 1 + max(view.group for view in self.views)


def allocate_pages(
    config: ModelConfig,
    groups: Sequence[CacheGroup],
    num_blocks: int,
    block_size: int,
    dtype: torch.dtype,
    device: torch.device,
) -> Pages:
    """Zeroed pages. The groups hold each layer once; a layer's window is the model's own, whatever its group's: in a
    group that keeps everything, a window is a mask only."""
    seats = {layer: (number, place) for number, group in enumerate(groups) for place, layer in enumerate(group.layers)}
    assert sorted(seats) == list(range(config.num_hidden_layers))
    shape = (num_blocks, block_size, 2, config.num_key_value_heads, config.head_dim)
    count = layers_per_block(tuple(groups))
    return Pages(
        tensors=tuple(torch.zeros(shape, dtype=dtype, device=device) for _ in range(count)),
        views=tuple(View(seats[layer][0], window) for layer, window in enumerate(config.windows)),
        places=tuple(seats[layer][1] for layer in range(config.num_hidden_layers)),
    )
