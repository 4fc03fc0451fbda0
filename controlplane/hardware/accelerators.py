"""Accelerators by their makers' figures, and formats of weights.

Source: NVIDIA's data sheets of A100 80 GB SXM, H100 SXM, H200 SXM, B200 and B300 (HGX) and GB200 (NVL72): dense
products, without sparsity; `link` is one direction of NVLink.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from controlplane.contract.errors import BadRequest, nearest


@dataclass(frozen=True)
class Accelerator:
    """bandwidth, link: bytes a second; memory: bytes; flops: a second, by the bits of both factors. One without
    products of so few bits multiplies in 16."""

    bandwidth: float
    memory: float
    link: float
    flops: Mapping[int, float]

    def flops_of(self, bits: int) -> float:
        return self.flops.get(bits, self.flops[16])


ACCELERATORS: Mapping[str, Accelerator] = {
    "a100": Accelerator(2.039e12, 80e9, 300e9, {16: 312e12}),
    "h100": Accelerator(3.35e12, 80e9, 450e9, {16: 989e12, 8: 1979e12}),
    "h200": Accelerator(4.8e12, 141e9, 450e9, {16: 989e12, 8: 1979e12}),
    "b200": Accelerator(8e12, 180e9, 900e9, {16: 2250e12, 8: 4500e12, 4: 9000e12}),
    "gb200": Accelerator(8e12, 186e9, 900e9, {16: 2500e12, 8: 5000e12, 4: 10000e12}),
    "b300": Accelerator(8e12, 270e9, 900e9, {16: 2250e12, 8: 4500e12, 4: 13500e12}),
}


@dataclass(frozen=True)
class WeightFormat:
    """bytes: of a weight of the layers, scales included. bits: of both factors of a product. kv_bytes: of a cached
    value, where an engine takes its cache's format from that of the weights."""

    bytes: float
    bits: int
    kv_bytes: int


FORMATS: Mapping[str, WeightFormat] = {
    "bf16": WeightFormat(2.0, 16, 2),
    "fp8": WeightFormat(1.0, 8, 1),
    "fp4": WeightFormat(0.5625, 4, 1),
    "int4": WeightFormat(0.5625, 16, 2),
}
"""fp4 and int4 have a scale for each 16 and 32 weights; int4 is unpacked and multiplied in 16 bits."""

UNQUANTIZED_BYTES = 2.0
"""Of a weight of the embedding and the head."""
KV_BYTES = 2
"""Of a cached value, where the engine does not follow the weights."""
ENGINES = ("vllm", "sglang", "trtllm")
FOLLOWS_WEIGHTS = "trtllm"


def accelerator(name: str, field: str = "accelerators") -> Accelerator:
    """Raises BadRequest for one that is not known, with the nearest name."""
    if name not in ACCELERATORS:
        raise BadRequest(f"{field}: no accelerator {name!r}, {nearest(name, list(ACCELERATORS))}", field=field)
    return ACCELERATORS[name]


def kv_bytes(engine: str, weights: WeightFormat) -> int:
    """Of a cached value, as the engine has it unless it is told."""
    return weights.kv_bytes if engine == FOLLOWS_WEIGHTS else KV_BYTES
