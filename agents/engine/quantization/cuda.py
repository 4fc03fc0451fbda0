"""The quantized layers on CUDA: products of the GPU where it has them, else weights widened on each call.

- int8: int8 products of rows quantized one by one (`torch._int_mm`); exact sums, so rows are independent.
- fp8: `torch._scaled_mm` with a scale per row and per output, from compute capability 8.9 on; before, widened.
- int4: `_weight_int4pack_mm` for bfloat16 rows from capability 8.0 on; before, widened.
"""

import torch
from torch import Tensor
from torch.nn import functional as F

from agents.engine.quantization import fp8, int8
from agents.engine.quantization.activations import LEAST
from agents.engine.quantization.int4 import GROUP, Int4Codes, round_codes
from controlplane.contract.knobs import Quantization

_LEAST_INT_ROWS = 32  # cuBLAS takes more than sixteen.
_INNER_TILES = 8


class CudaLinear:
    """A format that computes `product` in float32 or the rows' dtype; padding and bias are done here."""

    def __init__(self, quantization: Quantization, bias: Tensor | None) -> None:
        self.quantization = quantization
        self._bias = bias

    def __call__(self, rows: Tensor) -> Tensor:
        out = self.product(rows).to(rows.dtype)
        return out if self._bias is None else out + self._bias

    def product(self, rows: Tensor) -> Tensor:
        raise NotImplementedError


class CudaInt8(CudaLinear):
    """Int8 products, one activation scale per row."""

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        super().__init__(Quantization.INT8, bias)
        codes, scales = int8.weight_codes(weight)
        self._codes, self._scales = codes.T, scales / 127.0

    def product(self, rows: Tensor) -> Tensor:
        count = rows.shape[0]
        largest = _largest(rows)
        codes = (rows * (127.0 / largest)).round_().to(torch.int8)
        if count < _LEAST_INT_ROWS:
            codes = F.pad(codes, (0, 0, 0, _LEAST_INT_ROWS - count))
        return torch._int_mm(codes, self._codes)[:count] * (largest * self._scales)


class CudaFp8(CudaLinear):
    """fp8 products, one activation scale per row."""

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        super().__init__(Quantization.FP8, bias)
        codes, scales = fp8.weight_codes(weight)
        self._codes, self._scales = codes.T, scales[None, :] / fp8.LARGEST

    def product(self, rows: Tensor) -> Tensor:
        largest = _largest(rows)
        codes = (rows * (fp8.LARGEST / largest)).to(torch.float8_e4m3fn)
        out: Tensor = torch._scaled_mm(
            codes, self._codes, scale_a=largest, scale_b=self._scales, out_dtype=torch.bfloat16
        )
        return out


class CudaInt4(CudaLinear):
    """4-bit weights of groups, widened by the GPU's kernel."""

    def __init__(self, codes: Int4Codes, bias: Tensor | None, device: torch.device) -> None:
        super().__init__(Quantization.INT4, bias)
        own = codes.codes.to(device)
        self._weight = torch._convert_weight_to_int4pack((own[:, ::2] << 4) | own[:, 1::2], _INNER_TILES)
        # The kernel's zero is the value of code 8.
        zeros = codes.offsets + 8 * codes.scales
        self._scales = torch.stack((codes.scales, zeros), dim=-1).transpose(0, 1).contiguous().to(device).bfloat16()

    def product(self, rows: Tensor) -> Tensor:
        return torch._weight_int4pack_mm(rows.bfloat16(), self._weight, GROUP, self._scales)


class Widened(CudaLinear):
    """Emulation: the weights' codes are widened on each call."""

    def __init__(self, quantization: Quantization, codes: Tensor, scales: Tensor, bias: Tensor | None) -> None:
        super().__init__(quantization, bias)
        self._codes, self._scales = codes, scales

    def product(self, rows: Tensor) -> Tensor:
        return F.linear(rows, self._codes.to(rows.dtype)) * self._scales.to(rows.dtype)


def _largest(rows: Tensor) -> Tensor:
    """The largest magnitude of each row, (n, 1) float32; of a row of zeros `LEAST`."""
    largest: Tensor = torch.linalg.vector_norm(rows, torch.inf, dim=1, keepdim=True, dtype=torch.float32)
    return largest.clamp_min_(LEAST)


def build(weight: Tensor, bias: Tensor | None, quantization: Quantization, codes: Int4Codes | None) -> CudaLinear:
    """weight: (out, in) on CUDA; codes: int4's to use, found here where there are none."""
    outputs, inputs = weight.shape
    capability = torch.cuda.get_device_capability(weight.device)
    if quantization is Quantization.INT8:
        if outputs % 8 == 0 and inputs % 8 == 0:
            return CudaInt8(weight, bias)
        return Widened(quantization, *int8.weight_codes(weight), bias)
    if quantization is Quantization.FP8:
        if capability >= (8, 9) and outputs % 16 == 0 and inputs % 16 == 0:
            return CudaFp8(weight, bias)
        return Widened(quantization, *fp8.weight_codes(weight), bias)
    codes = codes or round_codes(weight)
    whole = outputs % 8 == 0 and inputs % (16 * _INNER_TILES) == 0
    if capability >= (8, 0) and whole and weight.dtype is torch.bfloat16:
        return CudaInt4(codes, bias, weight.device)
    values = codes.values()[:, :inputs].to(weight.device)
    return Widened(quantization, values.to(weight.dtype), torch.ones(outputs, device=weight.device), bias)


def describe(dtype: torch.dtype) -> dict[str, str]:
    """Format to how the first GPU runs a model of this dtype."""
    capability = torch.cuda.get_device_capability()
    return {
        Quantization.NONE.value: "cuBLAS",
        Quantization.INT8.value: "native: int8 products (sizes not divisible by 8: widened per call)",
        Quantization.INT4.value: "native: widened by the kernel (inputs not divisible by 128: per call), int8 head"
        if capability >= (8, 0) and dtype is torch.bfloat16
        else "emulated: widened per call, int8 head",
        Quantization.FP8.value: "native: fp8 products (sizes not divisible by 16: widened per call)"
        if capability >= (8, 9)
        else "emulated: widened per call",
    }
