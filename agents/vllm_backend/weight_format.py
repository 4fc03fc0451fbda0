"""vLLM's names of weight formats as the knob's."""

from controlplane.contract.knobs import Quantization

_BITS = {
    "fp8": Quantization.FP8,
    "fbgemm_fp8": Quantization.FP8,
    "ptpc_fp8": Quantization.FP8,
    "int8": Quantization.INT8,
    "experts_int8": Quantization.INT8,
    "awq": Quantization.INT4,
    "awq_marlin": Quantization.INT4,
    "gptq": Quantization.INT4,
    "gptq_marlin": Quantization.INT4,
}


def weight_format(name: str | None) -> str:
    """none, int8, int4 or fp8 where vLLM's name says so; else vLLM's own name (its width is in the checkpoint)."""
    if name is None:
        return Quantization.NONE.value
    found = _BITS.get(name)
    return name if found is None else found.value
