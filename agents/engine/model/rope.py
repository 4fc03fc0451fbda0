"""Rotary positions: the rule of a config.json, its frequencies, and the table of angles that the decoder looks up.

Guarantee: the frequencies are computed in float32 in the order of operations of transformers' `modeling_rope_utils`, so
that tables agree to the bit; a rule that would change the result and is not computed here is refused by its name.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from agents.engine.model.unsupported import unsupported
from controlplane.contract.errors import BadRequest

KINDS = ("default", "linear", "dynamic", "llama3", "yarn")
"""`dynamic` changes its frequencies only past max_position_embeddings, which this engine never passes: the default."""


@dataclass(frozen=True)
class Rope:
    """One rule. The factors count only for the kinds that use them; scaling multiplies sines and cosines (yarn)."""

    kind: str = "default"
    theta: float = 10000.0
    factor: float = 1.0
    low_freq_factor: float = 1.0
    high_freq_factor: float = 4.0
    original_max_position: int = 8192
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    truncate: bool = True
    scaling: float = 1.0

    def inverse_frequencies(self, head_dim: int) -> Tensor:
        """Angle per position of each pair, (head_dim / 2,) float32 (Su et al. 2021)."""
        if self.kind == "yarn":
            return self._yarn(head_dim)
        plain: Tensor = 1.0 / self._wavelengths(head_dim)
        if self.kind == "linear":
            return plain / self.factor
        return self._llama3(plain) if self.kind == "llama3" else plain

    def table(self, head_dim: int, positions: int, dtype: torch.dtype, device: torch.device) -> tuple[Tensor, Tensor]:
        """Cosines and sines, (positions, head_dim) each; the sign of the rotated half is folded into the sines, so that
        a rotation is a roll and two products."""
        angles = torch.outer(torch.arange(positions, dtype=torch.float32), self.inverse_frequencies(head_dim))
        cos, sin = angles.cos() * self.scaling, angles.sin() * self.scaling
        return cos.repeat(1, 2).to(device, dtype), torch.cat((-sin, sin), dim=1).to(device, dtype)

    def _wavelengths(self, head_dim: int) -> Tensor:
        steps = torch.arange(0, head_dim, 2, dtype=torch.float32) / head_dim
        powers: Tensor = self.theta**steps
        return powers

    def _llama3(self, plain: Tensor) -> Tensor:
        """Long waves are stretched by the factor, short ones kept, those between are blended (Llama 3.1)."""
        waves = 2 * math.pi / plain
        longest, shortest = (
            self.original_max_position / self.low_freq_factor,
            self.original_max_position / self.high_freq_factor,
        )
        stretched = torch.where(waves > longest, plain / self.factor, plain)
        blend = (self.original_max_position / waves - self.low_freq_factor) / (
            self.high_freq_factor - self.low_freq_factor
        )
        blended = (1 - blend) * stretched / self.factor + blend * stretched
        return torch.where(~(waves < shortest) & ~(waves > longest), blended, stretched)

    def _yarn(self, head_dim: int) -> Tensor:
        """Waves that turn often within the original context are kept, those that turn seldom are stretched, with a
        linear ramp between (Peng et al. 2023, section 3.2)."""
        waves = self._wavelengths(head_dim)
        low, high = (self._pair_that_turns(turns, head_dim) for turns in (self.beta_fast, self.beta_slow))
        if self.truncate:
            low, high = math.floor(low), math.ceil(high)
        low, high = max(low, 0), min(high, head_dim - 1)
        if low == high:
            high += 0.001
        ramp = torch.clamp((torch.arange(head_dim // 2, dtype=torch.float32) - low) / (high - low), 0, 1)
        kept = 1 - ramp
        mixed: Tensor = 1.0 / (self.factor * waves) * (1 - kept) + 1.0 / waves * kept
        return mixed

    def _pair_that_turns(self, turns: float, head_dim: int) -> float:
        """The (fractional) pair that turns so many times within the original context."""
        return (head_dim * math.log(self.original_max_position / (turns * 2 * math.pi))) / (2 * math.log(self.theta))


def parse_rope(values: Mapping[str, Any], max_position: int, default_theta: float = 10000.0) -> Rope:
    """One rule of a config.json, `rope_theta` among its values. Raises `BadRequest` that names what is not computed."""
    kind = values.get("rope_type") or values.get("type") or "default"
    if kind not in KINDS:
        raise unsupported("rope_type", kind, f"one of {', '.join(KINDS)}")
    if (partial := values.get("partial_rotary_factor") or 1.0) != 1.0:
        raise unsupported("partial_rotary_factor", partial, "1.0")
    if kind in ("linear", "llama3") and not values.get("factor"):
        raise BadRequest(f"config.json: rope_type {kind} wants a factor", field="factor")
    original = int(values.get("original_max_position_embeddings") or max_position)
    factor = float(values.get("factor") or max_position / original)
    return Rope(
        kind=kind,
        theta=float(values.get("rope_theta") or default_theta),
        factor=factor,
        low_freq_factor=float(values.get("low_freq_factor", 1.0)),
        high_freq_factor=float(values.get("high_freq_factor", 4.0)),
        original_max_position=original,
        beta_fast=float(values.get("beta_fast") or 32),
        beta_slow=float(values.get("beta_slow") or 1),
        truncate=bool(values.get("truncate", True)),
        scaling=_yarn_scaling(values, factor) if kind == "yarn" else 1.0,
    )


def _yarn_scaling(values: Mapping[str, Any], factor: float) -> float:
    """What cosines and sines are multiplied by (Peng et al. 2023, equation 22, and DeepSeek's two-part form)."""

    def growth(weight: float = 1.0) -> float:
        return 1.0 if factor <= 1 else 0.1 * weight * math.log(factor) + 1.0

    if (given := values.get("attention_factor")) is not None:
        return float(given)
    one, all_dims = values.get("mscale"), values.get("mscale_all_dim")
    return growth(one) / growth(all_dims) if one and all_dims else growth()
