"""Indices as a tensor where they are used.

Guarantee: the caller never waits for a GPU. A plain copy waits until the device has done all that it was given, ten
times a step; from pinned memory it takes its place among the device's work.
"""

from collections.abc import Sequence

import torch
from torch import Tensor


def indices(values: Sequence[int], device: torch.device) -> Tensor:
    """(len(values),) int64."""
    if device.type == "cuda":
        return torch.tensor(values, dtype=torch.int64, pin_memory=True).to(device, non_blocking=True)
    return torch.tensor(values, dtype=torch.int64, device=device)
