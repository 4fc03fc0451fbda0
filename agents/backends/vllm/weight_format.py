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


_WIDTHS = {"int8": Quantization.INT8, "int4": Quantization.INT4, "float8": Quantization.FP8}
"""What the plugin puts behind vLLM's name and a slash, where the checkpoint says its width."""


def weight_format(name: str | None) -> str:
    """none, int8, int4 or fp8 where vLLM's name or the plugin says so; else vLLM's own name."""
    if name is None:
        return Quantization.NONE.value
    name, _, width = name.partition("/")
    if width:
        return _WIDTHS[width].value if width in _WIDTHS else name
    found = _BITS.get(name)
    return name if found is None else found.value


def format_within(name: str | None, variant: Quantization | None) -> str:
    """The same, where the server was started for a variant: its format, unless vLLM's name says another."""
    found = weight_format(name)
    return found if variant is None or found in tuple(Quantization) else variant.value
