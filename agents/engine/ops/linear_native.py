"""The native linear kernels on the CPU: integer products (int8, 4 bits), bfloat16 ones (plain, by AMX, fp8), and
float32 ones of any processor.

Guarantee: a row's result has the same bits with any other rows beside it and with any number of threads. Outputs have
the dtype of the rows: float32, bfloat16 or float16. Sizes are checked by the callers, which made the packed weights.
"""

import ctypes
import logging
from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor

from agents.engine.ops.library import NativeUnavailable, instruction_sets, load
from controlplane.contract.errors import BadRequest

DTYPES = {torch.float32: 0, torch.bfloat16: 1, torch.float16: 2}
AMX_INPUTS = 32
"""The weights of the AMX kernel are padded to so many inputs; its rows are not."""
_NEEDED = {
    "linear_int": ("avx512f", "avx512bw", "avx512vl", "avx512_vnni"),
    "linear_bfloat16": ("avx512f", "avx512bw", "avx512vl", "avx512_bf16", "avx512vbmi"),
    "linear_amx": ("avx512f", "avx512bw", "avx512vl", "amx_tile", "amx_bf16"),
    "linear_float": (),
}
_pointer, _long, _int = ctypes.c_void_p, ctypes.c_long, ctypes.c_int
_HEAD = (_pointer, _int, _long, _long, _long, _pointer)
_SIGNATURES = {
    "tailwright_linear_int8": ("linear_int", (*_HEAD, _long, _pointer, _pointer, _pointer, _int)),
    "tailwright_linear_int4": ("linear_int", (*_HEAD, _long, _pointer, _pointer, _pointer, _pointer, _int)),
    "tailwright_quantize_rows": ("linear_int", (_pointer, _int, _long, _long, _long, _pointer, _pointer, _pointer)),
    "tailwright_linear_bfloat16": ("linear_bfloat16", (*_HEAD, _pointer, _pointer, _int)),
    "tailwright_linear_amx": ("linear_amx", (*_HEAD, _pointer, _pointer, _int)),
    "tailwright_linear_wide_f32": ("linear_float", (*_HEAD, _pointer, _pointer, _int)),
    "tailwright_linear_wide_bf16": ("linear_float", (*_HEAD, _pointer, _pointer, _int)),
    "tailwright_linear_wide_f16": ("linear_float", (*_HEAD, _pointer, _pointer, _int)),
    "tailwright_linear_fp8": ("linear_bfloat16", (*_HEAD, _pointer, _pointer, _pointer, _int)),
}

_INSTRUCTIONS = {
    **{"int8": "vpdpbusd", "int4": "vpdpbusd"},
    **{"bfloat16": "vdpbf16ps", "fp8": "vdpbf16ps", "amx": "tdpbf16ps"},
}

_log = logging.getLogger(__name__)


@cache
def _function(name: str) -> "ctypes._NamedFuncPointer":
    library, signature = _SIGNATURES[name]
    if missing := [flag for flag in _NEEDED[library] if flag not in instruction_sets()]:
        raise NativeUnavailable(f"the instruction sets in use lack {', '.join(missing)}, which {library}.cpp needs")
    loaded = load(library)
    if library == "linear_amx" and loaded.tailwright_amx_request():
        raise NativeUnavailable("Linux does not grant this process AMX's tiles, which linear_amx.cpp needs")
    function = getattr(loaded, name)
    function.argtypes, function.restype = list(signature), None
    return function  # type: ignore[no-any-return]


@dataclass(frozen=True)
class Choice:
    """native: whether the kernel runs; report: what runs, and why not the kernel where it does not."""

    native: bool
    report: str


@cache
def choose(format_name: str, kernels: str = "auto") -> Choice:
    """Whether the kernel of a weight format (int8, int4, fp8, bfloat16, amx) can be had; logged once where it cannot.

    Raises `BadRequest` (kernels) when `native` is asked for and the kernel cannot be had.
    """
    if kernels == "torch":
        return Choice(False, "torch: asked for")
    try:
        _function(f"tailwright_linear_{format_name}")
    except NativeUnavailable as unavailable:
        if kernels == "native":
            raise BadRequest(f"kernels: native is asked for, but {unavailable}", field="kernels") from unavailable
        _log.warning("%s linear layers run on plain torch operations: %s", format_name, unavailable)
        return Choice(False, f"torch: {unavailable}")
    return Choice(True, f"native ({_INSTRUCTIONS.get(format_name, 'float32 sums')})")


def product(format_name: str, rows: Tensor, outputs: int, weight: Tensor, *rest: "Tensor | int | None") -> Tensor:
    """rows (n, in) times packed weights, (n, outputs). rest: what the kernel takes between weight and output."""
    rows = rows.contiguous()
    count, inputs = rows.shape
    out = torch.empty((count, outputs), dtype=rows.dtype)
    _function(f"tailwright_linear_{format_name}")(
        rows.data_ptr(),
        DTYPES[rows.dtype],
        count,
        inputs,
        outputs,
        weight.data_ptr(),
        *(item.data_ptr() if isinstance(item, Tensor) else item for item in rest),
        out.data_ptr(),
        torch.get_num_threads(),
    )
    return out


def quantize_rows(rows: Tensor, group: int) -> tuple[Tensor, Tensor, Tensor]:
    """The codes (n, groups, group), scales and sums (n, groups) that the integer kernels give to rows."""
    rows = rows.contiguous()
    count, inputs = rows.shape
    groups = -(-inputs // group)
    codes = torch.empty((count, groups, group), dtype=torch.int8)
    scales, sums = torch.empty((count, groups)), torch.empty((count, groups), dtype=torch.int32)
    _function("tailwright_quantize_rows")(
        rows.data_ptr(),
        DTYPES[rows.dtype],
        count,
        inputs,
        group,
        codes.data_ptr(),
        scales.data_ptr(),
        sums.data_ptr(),
    )
    return codes, scales, sums
