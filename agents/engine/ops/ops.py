"""The decoder's operations besides its linear layers: norms, rotary positions with the cache write, attention, gating.

This is the seam between the model and whoever computes it. Invariants of every implementation:
- float32: the result is that of `torch_ops.py` up to rounding, for any shape a supported model has;
- a row's result has the same bits whatever other rows the step computes, however its tokens were split into steps, and
  whichever blocks its table names (float32, one thread);
- norm weights are float32 whatever the rows' dtype; a norm is computed in float32 and rounded once, at its end;
- a cache page is (blocks, block size, 2, kv heads, head dim), keys before values; block 0 may be written by padding
  rows and is never read for a real row.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor


@dataclass(frozen=True)
class Span:
    """Neighbouring query rows of one sequence: rows [row, row + count) at positions [position, position + count).

    table: block ids by place in the sequence; at least those that the rows look at are real.
    """

    row: int
    count: int
    position: int
    table: Sequence[int]


@dataclass(frozen=True)
class AttentionShape:
    """What a model's attention layers have in common."""

    heads: int
    kv_heads: int
    head_dim: int
    block_size: int
    dtype: torch.dtype
    device: torch.device


class AttentionPlan:
    """A step's arrangement for the layers with one view of the cache; implementations have their own."""


class Ops(ABC):
    """One way to compute the operations. Stateless: safe to share between models of any shape."""

    name: ClassVar[str]

    @abstractmethod
    def plan(self, spans: Sequence[Span], spare_rows: int, shape: AttentionShape, window: int | None) -> AttentionPlan:
        """Arrange a step's rows; spare rows follow the spans and get any finite result.

        window: tokens a row looks back, itself included; None: all.
        """

    @abstractmethod
    def rms_norm(self, rows: Tensor, weight: Tensor, epsilon: float) -> Tensor:
        """rows (..., d) to the same shape: rows / sqrt(mean(rows^2) + epsilon) * weight (Zhang and Sennrich 2019)."""

    @abstractmethod
    def add_rms_norm(self, rows: Tensor, residual: Tensor, weight: Tensor, epsilon: float) -> tuple[Tensor, Tensor]:
        """(the norm of the sum, the sum); either input may be overwritten."""

    @abstractmethod
    def rotate_and_store(
        self,
        qkv: Tensor,
        norms: tuple[Tensor, Tensor, float] | None,
        cos: Tensor,
        sin: Tensor,
        slots: Tensor,
        pages: Tensor,
        heads: int,
    ) -> Tensor:
        """Norm (where the model has it) and rotate queries and keys, write keys and values to their slots.

        qkv: (rows, (heads + 2 * kv heads) * d); norms: query weight (d,), key weight (d,), epsilon; cos, sin:
        (rows, d), the sign of the rotated half folded into sin; slots: (rows,) int64, block * block size + place.
        Returns the queries (rows, heads, d).
        """

    @abstractmethod
    def attend(self, queries: Tensor, pages: Tensor, plan: AttentionPlan, scale: float) -> Tensor:
        """queries (rows, heads, d) over the cached keys and values, causal; returns (rows, heads * d)."""

    @abstractmethod
    def gate(self, gate_up: Tensor, activation: str) -> Tensor:
        """(rows, 2 * n), gates first, to (rows, n): activation(gate) * up; activation is silu or gelu_tanh."""
