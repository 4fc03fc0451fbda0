"""The operations as C++ kernels on the CPU.

Guarantee, beyond that of `Ops`: a row's result has the same bits with any number of threads and in every format; the
kernels compute in float32 and round once (attention in bfloat16 on a processor with AVX512-BF16 multiplies pairs in
bfloat16, as flash attention does elsewhere). What the kernels assume about shapes, strides and types is asserted
here, and block ids and slots are checked against the pages on each call: a wrong one raises `IndexError`.
"""

import ctypes
from array import array
from collections.abc import Callable, Sequence
from typing import ClassVar

import torch
from torch import Tensor

from agents.engine.ops.library import load
from agents.engine.ops.ops import AttentionPlan, AttentionShape, Ops, Span

SUFFIXES = {torch.float32: "f32", torch.bfloat16: "bf16", torch.float16: "f16"}
MOST_HEAD_DIM = 1024
_ACTIVATIONS = {"silu": 0, "gelu_tanh": 1}

_pointer, _long, _int, _float = ctypes.c_void_p, ctypes.c_int64, ctypes.c_int32, ctypes.c_float
_ELEMENTWISE = {
    "rms_norm": (None, (_pointer, _pointer, _pointer, _long, _long, _float, _int)),
    "add_rms_norm": (None, (_pointer, _pointer, _pointer, _long, _long, _float, _int)),
    "rotate_and_store": (
        _int,
        (_pointer,) * 3 + (_float,) + (_pointer,) * 5 + (_long,) * 5 + (_int,),
    ),
    "gate": (None, (_pointer, _pointer, _long, _long, _int, _int)),
    "largest": (None, (_pointer, _pointer, _long, _long, _long, _int)),
}
_ATTEND = (_int, (_pointer, _long, _long, _pointer, _long, _pointer, _pointer, _long, _float, _int))

Kernel = Callable[..., int]


class NativePlan(AttentionPlan):
    """Spans and tables flat, as attention.cpp reads them: one array of addresses and sizes, alive as long as this."""

    __slots__ = ("_spans", "_table", "address", "packed")

    def __init__(self, spans: "array[int]", table: "array[int]", shape: AttentionShape, window: int | None) -> None:
        self._spans, self._table = spans, table
        self.packed = array(
            "q",
            (
                spans.buffer_info()[0],
                len(spans) // 4,
                table.buffer_info()[0],
                len(table),
                window or 0,
                shape.heads,
                shape.kv_heads,
                shape.head_dim,
                shape.block_size,
            ),
        )
        self.address = self.packed.buffer_info()[0]


class NativeOps(Ops):
    """See `Ops`. Building the kernels is the first use's work: raises `NativeUnavailable` where that fails."""

    name: ClassVar[str] = "native"

    def __init__(self) -> None:
        attention, elementwise = load("attention"), load("elementwise")
        attention.vector_set.restype = ctypes.c_char_p
        self.vector_set: str = attention.vector_set().decode()
        # The small kernels keep Python's lock: giving it up and waiting for it again, while a server's thread runs,
        # would cost more than they do.
        locked = ctypes.PyDLL(elementwise._name, handle=elementwise._handle)
        self._attend = {dtype: _bind(attention, f"attend_{suffix}", _ATTEND) for dtype, suffix in SUFFIXES.items()}
        self._rms_norm, self._add_rms_norm, self._rotate_and_store, self._gate, self._largest = (
            {dtype: _bind(locked, f"{name}_{suffix}", signature) for dtype, suffix in SUFFIXES.items()}
            for name, signature in _ELEMENTWISE.items()
        )

    def plan(self, spans: Sequence[Span], spare_rows: int, shape: AttentionShape, window: int | None) -> NativePlan:
        size = shape.block_size
        flat: list[int] = []
        packed: list[int] = []
        for span in spans:
            position = span.position
            past = (position + span.count - 1) // size + 1
            first = 0 if window is None or position < window else (position - window + 1) // size
            packed += (span.row, span.count, position, len(flat) - first)
            flat += span.table[first:past]
            assert len(flat) - packed[-1] == past, f"the table of row {span.row} is shorter than its positions"
        return NativePlan(array("i", packed), array("i", flat), shape, window)

    def attend(self, queries: Tensor, pages: Tensor, plan: AttentionPlan, scale: float) -> Tensor:
        assert isinstance(plan, NativePlan)
        rows, heads, head_dim = queries.shape
        row_stride, head_stride, stride = queries.stride()
        blocks, block_size, _, kv_heads, page_dim = pages.shape
        assert stride == 1 and scale > 0 and head_dim == page_dim and pages.is_contiguous()
        assert (heads, kv_heads, head_dim, block_size) == tuple(plan.packed[5:])
        out = queries.new_empty((rows, heads * head_dim))
        wrong = self._attend[queries.dtype](
            queries.data_ptr(),
            row_stride,
            head_stride,
            pages.data_ptr(),
            blocks,
            plan.address,
            out.data_ptr(),
            rows,
            scale,
            torch.get_num_threads(),
        )
        if wrong:
            raise IndexError(f"a block table names a block outside the {blocks} of the cache")
        return out

    def rms_norm(self, rows: Tensor, weight: Tensor, epsilon: float) -> Tensor:
        width = rows.shape[-1]
        assert rows.is_contiguous() and weight.dtype is torch.float32 and weight.shape == (width,)
        out = torch.empty_like(rows)
        self._rms_norm[rows.dtype](
            rows.data_ptr(),
            weight.data_ptr(),
            out.data_ptr(),
            rows.numel() // width,
            width,
            epsilon,
            torch.get_num_threads(),
        )
        return out

    def add_rms_norm(self, rows: Tensor, residual: Tensor, weight: Tensor, epsilon: float) -> tuple[Tensor, Tensor]:
        width = rows.shape[-1]
        assert rows.is_contiguous() and residual.is_contiguous() and rows.shape == residual.shape
        assert weight.dtype is torch.float32 and weight.shape == (width,) and rows.dtype == residual.dtype
        self._add_rms_norm[rows.dtype](
            rows.data_ptr(),
            residual.data_ptr(),
            weight.data_ptr(),
            rows.numel() // width,
            width,
            epsilon,
            torch.get_num_threads(),
        )
        return rows, residual

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
        rows, width = qkv.shape
        blocks, block_size, _, kv_heads, head_dim = pages.shape
        assert width == (heads + 2 * kv_heads) * head_dim and head_dim <= MOST_HEAD_DIM and not head_dim % 2
        assert qkv.is_contiguous() and cos.is_contiguous() and sin.is_contiguous() and pages.is_contiguous()
        assert cos.shape == sin.shape == (rows, head_dim) and slots.shape == (rows,) and slots.dtype is torch.int64
        assert qkv.dtype == cos.dtype == sin.dtype == pages.dtype
        query_norm = key_norm = 0
        epsilon = 0.0
        if norms is not None:
            query_weight, key_weight, epsilon = norms
            assert query_weight.dtype is key_weight.dtype is torch.float32
            query_norm, key_norm = query_weight.data_ptr(), key_weight.data_ptr()
        queries = qkv.new_empty((rows, heads, head_dim))
        wrong = self._rotate_and_store[qkv.dtype](
            qkv.data_ptr(),
            query_norm,
            key_norm,
            epsilon,
            cos.data_ptr(),
            sin.data_ptr(),
            slots.data_ptr(),
            pages.data_ptr(),
            queries.data_ptr(),
            rows,
            heads,
            kv_heads,
            head_dim,
            blocks * block_size,
            torch.get_num_threads(),
        )
        if wrong:
            raise IndexError(f"a slot lies outside the {blocks} blocks of the cache")
        return queries

    def gate(self, gate_up: Tensor, activation: str) -> Tensor:
        rows, width = gate_up.shape
        assert gate_up.is_contiguous()
        out = gate_up.new_empty((rows, width // 2))
        self._gate[gate_up.dtype](
            gate_up.data_ptr(),
            out.data_ptr(),
            rows,
            width // 2,
            _ACTIVATIONS[activation],
            torch.get_num_threads(),
        )
        return out

    def largest(self, rows: Tensor) -> list[int]:
        """The first place of each row's largest number; a NaN is never the largest. rows: (n, width)."""
        count, width = rows.shape
        row_stride, stride = rows.stride()
        assert stride == 1
        places = (ctypes.c_int64 * count)()
        self._largest[rows.dtype](
            rows.data_ptr(), ctypes.addressof(places), count, width, row_stride, torch.get_num_threads()
        )
        return list(places)


def _bind(library: ctypes.CDLL, name: str, signature: tuple[type | None, tuple[type, ...]]) -> Kernel:
    kernel = getattr(library, name)
    kernel.restype, kernel.argtypes = signature
    bound: Kernel = kernel
    return bound
