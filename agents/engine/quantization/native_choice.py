"""Whether a format's native kernel runs here: it can be had, and it computes what its torch twin does.

Checked once per process and format, in milliseconds, on a small product whose sizes fill no tile; a kernel that is
wrong here (a compiler's fault, a processor that was misread) is not used, with one logged reason.
"""

import logging
from collections.abc import Callable
from functools import cache

import torch
from torch import Tensor

from agents.engine.ops import linear_native
from agents.engine.ops.linear_native import Choice
from agents.engine.quantization.fp8 import Fp8Linear, TorchFp8Linear
from agents.engine.quantization.int4 import Int4Linear, TorchInt4Linear, round_codes
from agents.engine.quantization.int8 import Int8Linear, TorchInt8Linear
from agents.engine.quantization.plain import WIDE, Amx, Bfloat16, Blas, Wide
from controlplane.contract.errors import BadRequest

TOLERANCE = 0.02
"""Largest difference, relative to the largest number of the result: a little more than bfloat16's rounding."""
_WIDE_DTYPES = {name: dtype for dtype, name in WIDE.items()}
_OUTPUTS, _INPUTS, _ROWS = 37, 200, 5

Product = Callable[[Tensor], Tensor]

_log = logging.getLogger(__name__)


@cache
def choose(format_name: str, kernels: str = "auto") -> Choice:
    """Whether the kernel of a weight format (int8, int4, fp8, bfloat16, amx, or one of `WIDE`) runs.

    Raises `BadRequest` (kernels) when `native` is asked for and the kernel cannot be had or is wrong.
    """
    choice = linear_native.choose(format_name, kernels)
    if not choice.native or (difference := _difference(format_name)) <= TOLERANCE:
        return choice
    reason = f"the {format_name} kernel built here is wrong, by {difference:.1e} of the largest number"
    if kernels == "native":
        raise BadRequest(f"kernels: native is asked for, but {reason}", field="kernels")
    _log.warning("%s linear layers run on plain torch operations: %s", format_name, reason)
    return Choice(False, f"torch: {reason}")


@torch.inference_mode()
def _difference(format_name: str) -> float:
    """Between kernel and twin; a NaN is a difference without bound."""
    generator = torch.Generator().manual_seed(11)
    weight = torch.randn((_OUTPUTS, _INPUTS), generator=generator).to(torch.bfloat16)
    bias = torch.randn(_OUTPUTS, generator=generator).to(torch.bfloat16)
    rows = torch.randn((_ROWS, _INPUTS), generator=generator).to(torch.bfloat16)
    native, twin = _pair(format_name, weight, bias)
    exact = twin(rows).double()
    difference = ((native(rows).double() - exact).abs().max() / exact.abs().max()).item()
    return difference if difference == difference else float("inf")


def _pair(format_name: str, weight: Tensor, bias: Tensor) -> tuple[Product, Product]:
    if format_name == "int8":
        return Int8Linear(weight, bias), TorchInt8Linear(weight, bias)
    if format_name == "int4":
        codes = round_codes(weight)
        return Int4Linear(codes, bias), TorchInt4Linear(codes, bias)
    if format_name == "fp8":
        return Fp8Linear(weight, bias), TorchFp8Linear(weight, bias)
    if format_name in _WIDE_DTYPES:
        own, shift = weight.to(_WIDE_DTYPES[format_name]), bias.to(_WIDE_DTYPES[format_name])
        wide, blas = Wide(own, shift), Blas(own, shift)
        return wide, lambda rows: blas(rows.to(own.dtype))
    return (Amx if format_name == "amx" else Bfloat16)(weight, bias), Blas(weight, bias)
