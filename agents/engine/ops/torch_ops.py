"""The operations in plain torch: the reference, and what runs where no native kernel does."""

from collections.abc import Sequence
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from agents.engine.ops.attention import TorchPlan, attend, plan_attention
from agents.engine.ops.ops import AttentionPlan, AttentionShape, Ops, Span

# cuDNN's kernels are no choice: it prepares each new shape for milliseconds, and shapes change with every step.
torch.backends.cuda.enable_cudnn_sdp(False)

SDPA_KERNELS: dict[str, list[SDPBackend]] = {
    "auto": [],
    # Flash attention takes no mask on CUDA; there the memory-efficient kernel is the one that never holds all scores.
    "flash": [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION],
    "math": [SDPBackend.MATH],
}
"""Ways to compute scaled dot products: torch's choice, in tiles that stay in fast memory (Dao et al. 2022), or score by
score."""


class TorchOps(Ops):
    """See `Ops`; its guarantee about bits holds for `auto` and `flash`."""

    name: ClassVar[str] = "torch"

    def __init__(self, sdpa: str = "auto") -> None:
        """sdpa: one of `SDPA_KERNELS`."""
        self._backends = SDPA_KERNELS[sdpa]

    def plan(self, spans: Sequence[Span], spare_rows: int, shape: AttentionShape, window: int | None) -> AttentionPlan:
        return plan_attention(spans, spare_rows, shape, window)

    def rms_norm(self, rows: Tensor, weight: Tensor, epsilon: float) -> Tensor:
        if rows.dtype is torch.float32:
            return F.rms_norm(rows, weight.shape, weight, epsilon)
        # The same in float32, which torch computes in one pass; mixed formats it does not.
        return F.rms_norm(rows.float(), weight.shape, weight, epsilon).to(rows.dtype)

    def add_rms_norm(self, rows: Tensor, residual: Tensor, weight: Tensor, epsilon: float) -> tuple[Tensor, Tensor]:
        total = rows + residual
        return self.rms_norm(total, weight, epsilon), total

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
        count, kv_heads, head_dim = qkv.shape[0], pages.shape[3], pages.shape[4]
        half, rotated_width = head_dim // 2, (heads + kv_heads) * head_dim
        turning = qkv[:, :rotated_width].view(count, heads + kv_heads, head_dim)
        if norms is not None:
            query_norm, key_norm, epsilon = norms
            queries = self.rms_norm(turning[:, :heads], query_norm, epsilon)
            turning = torch.cat((queries, self.rms_norm(turning[:, heads:], key_norm, epsilon)), dim=1)
        turned = torch.cat((turning[..., half:], turning[..., :half]), dim=-1)
        rotated = torch.addcmul(turning * cos.unsqueeze(1), turned, sin.unsqueeze(1))
        flat = pages.view(-1, 2, kv_heads * head_dim)
        flat[:, 0].index_copy_(0, slots, rotated[:, heads:].reshape(count, -1))
        flat[:, 1].index_copy_(0, slots, qkv[:, rotated_width:])
        return rotated[:, :heads]

    def attend(self, queries: Tensor, pages: Tensor, plan: AttentionPlan, scale: float) -> Tensor:
        assert isinstance(plan, TorchPlan)
        if not self._backends:
            return attend(queries, pages, plan, scale)
        with sdpa_kernel(self._backends):
            return attend(queries, pages, plan, scale)

    def gate(self, gate_up: Tensor, activation: str) -> Tensor:
        gate, up = gate_up.chunk(2, dim=1)
        return (F.silu(gate) if activation == "silu" else F.gelu(gate, approximate="tanh")) * up
