"""The formats a variant can have: how a weight is written, and what config.json says of it.

The `quantization_config` is that of compressed-tensors 0.17 (its `QuantizationConfig`), which llm-compressor writes and
vLLM reads. Weights and activations together decide the scheme that vLLM picks:
  int8   W8A8: a scale per output; activations to int8 row by row while it serves
  int4   W4A16: a scale per output and group of inputs; activations as they are
  fp8    W8A8: e4m3, a scale per output; activations to fp8 row by row while it serves
Seen on the CPU build of vLLM 0.32: in float32 both become healthy, then the first request ends int4 everywhere
("cpu_gemm_wna16" not implemented for 'Float') and int8 on a processor with AMX ("int8_scaled_mm_with_quant: expect A to
be bfloat16 or half"); so they want `--dtype bfloat16`. fp8 was not tried there.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from torch import Tensor

from agents.backends.vllm.variants import codes
from controlplane.contract.errors import BadRequest, nearest
from controlplane.contract.knobs import Quantization

INT4_GROUP = 128
KEPT = ("lm_head",)
"""Linear layers that stay in the model's own type; embeddings and norms are no linear layers."""


class BadVariant(BadRequest):
    """The variant cannot be made; `field` names why."""

    code = "bad_variant"


@dataclass(frozen=True)
class Format:
    """`encode` turns a weight into the tensors that replace it, named by what follows the layer's name. `inputs_by`:
    what a weight's number of inputs must be a multiple of."""

    name: str
    layout: str
    encode: Callable[[Tensor], dict[str, Tensor]]
    weights: dict[str, Any]
    activations: dict[str, Any] | None
    inputs_by: int = 1

    def quantization_config(self) -> dict[str, Any]:
        """For config.json."""
        group = {
            "format": self.layout,
            "targets": ["Linear"],
            "weights": self.weights,
            "input_activations": self.activations,
            "output_activations": None,
        }
        return {
            "quant_method": "compressed-tensors",
            "quantization_status": "compressed",
            "format": self.layout,
            "config_groups": {"group_0": group},
            "ignore": list(KEPT),
            "kv_cache_scheme": None,
        }


def _numbers(bits: int, kind: str, strategy: str, *, group: int | None = None, dynamic: bool = False) -> dict[str, Any]:
    return {
        "num_bits": bits, "type": kind, "strategy": strategy, "group_size": group, "dynamic": dynamic, "symmetric": True
    }  # fmt: skip


FORMATS = {
    each.name: each
    for each in (
        Format(
            Quantization.INT8.value,
            "int-quantized",
            codes.int8,
            _numbers(8, "int", "channel"),
            _numbers(8, "int", "token", dynamic=True),
        ),
        Format(
            Quantization.INT4.value,
            "pack-quantized",
            partial(codes.int4, group=INT4_GROUP),
            _numbers(4, "int", "group", group=INT4_GROUP),
            None,
            inputs_by=INT4_GROUP,
        ),
        Format(
            Quantization.FP8.value,
            "float-quantized",
            codes.fp8,
            _numbers(8, "float", "channel"),
            _numbers(8, "float", "token", dynamic=True),
        ),
    )
}


def format_named(name: str) -> Format:
    """Raises `BadVariant`."""
    if name not in FORMATS:
        raise BadVariant(f"format: there is no {name!r}, {nearest(name, list(FORMATS))}", field="format")
    return FORMATS[name]
