"""Which operations an engine runs: the native kernels where they can be had and are right, else plain torch.

Guarantee: native kernels are used only after a small random case gave what the torch path gives. With `auto` whatever
stands against them becomes one logged reason, shown in the effective configuration; with `native` it is an error.
"""

import logging
from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor

from agents.engine.ops.library import NativeUnavailable
from agents.engine.ops.native_ops import SUFFIXES, NativeOps
from agents.engine.ops.ops import AttentionShape, Ops, Span
from agents.engine.ops.torch_ops import TorchOps
from controlplane.contract.errors import BadRequest

TOLERANCES = {torch.float32: 2e-5, torch.bfloat16: 6e-2, torch.float16: 8e-3}
"""Largest difference from the torch path that rounding explains, for numbers of the size 1 to 4."""

_log = logging.getLogger(__name__)
_in_use: NativeOps | None = None  # Set by the first choice of native kernels.


@dataclass(frozen=True)
class Chosen:
    """report: what runs, and why not the native kernels where they do not."""

    ops: Ops
    report: str


@cache
def choose_ops(device: torch.device, dtype: torch.dtype, kernels: str = "auto") -> Chosen:
    """Build and check the kernels on the first call of a process. Raises `BadRequest` when `kernels` is native and they
    cannot be used."""
    if kernels == "torch":
        return Chosen(TorchOps(), "torch: asked for")
    try:
        ops = _checked(device, dtype)
    except NativeUnavailable as unavailable:
        if kernels == "native":
            raise BadRequest(f"kernels: native is asked for, but {unavailable}", field="kernels") from unavailable
        _log.warning("the engine runs on plain torch operations: %s", unavailable)
        return Chosen(TorchOps(), f"torch: {unavailable}")
    global _in_use
    _in_use = ops
    return Chosen(ops, f"native ({ops.vector_set})")


def argmax_rows(logits: Tensor) -> list[int]:
    """The place of each row's largest number, the first among equals. logits: (n, vocabulary), any device and format.

    Native where this process has chosen native kernels, else torch. A NaN: torch's argmax gives its place, the native
    one passes over it.
    """
    if _in_use is not None and logits.is_cpu and logits.dtype in SUFFIXES and logits.stride(-1) == 1:
        return _in_use.largest(logits)
    places: list[int] = logits.argmax(dim=-1).tolist()
    return places


@cache
def native_ops() -> NativeOps:
    """This process's kernels, not yet checked for a format. Raises `NativeUnavailable`."""
    return NativeOps()


def _checked(device: torch.device, dtype: torch.dtype) -> NativeOps:
    if device.type != "cpu":
        raise NativeUnavailable(f"the kernels are for the CPU and the model is on {device}")
    if dtype not in SUFFIXES:
        raise NativeUnavailable(f"the kernels know no {dtype}")
    ops = native_ops()
    differences = compare(ops, TorchOps(), dtype)
    wrong = {name: difference for name, difference in differences.items() if not difference <= TOLERANCES[dtype]}
    places = torch.tensor([[1.0, 3.0, 3.0, 2.0] * 5, [-1.0, -2.0, -3.0, 0.5] * 5]).to(dtype)
    if ops.largest(places) != [1, 3]:
        wrong["largest"] = float("inf")
    if wrong:
        raise NativeUnavailable(
            f"the kernels built here are wrong: largest differences from torch in {dtype} are "
            + ", ".join(f"{name} {difference:.1e}" for name, difference in wrong.items())
        )
    return ops


@torch.inference_mode()
def compare(ops: Ops, other: Ops, dtype: torch.dtype) -> dict[str, float]:
    """The largest difference between two implementations, by operation, on a small random case: a decoding row and a
    prompt's piece, under a window and without one. A NaN is a difference without bound."""
    generator = torch.Generator().manual_seed(7)

    def draw(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator).to(dtype)

    shape = AttentionShape(4, 2, 32, 16, dtype, torch.device("cpu"))
    spans = [Span(0, 1, 40, (3, 1, 5)), Span(1, 6, 14, (2, 4))]
    rows, width = 7, 4 * 32
    qkv, cos, sin, pages = draw(rows, 2 * width), draw(rows, 32), draw(rows, 32), draw(6, 16, 2, 2, 32)
    slots = torch.tensor([5 * 16 + 8, 2 * 16 + 14, 2 * 16 + 15, 4 * 16, 4 * 16 + 1, 4 * 16 + 2, 4 * 16 + 3])
    norms = (draw(32).float(), draw(32).float(), 1e-6)
    stream, weight, gates = draw(rows, width), draw(width).float(), draw(rows, 2 * width)

    def results(own: Ops) -> dict[str, Tensor]:
        cache_pages = pages.clone()
        queries = own.rotate_and_store(qkv, norms, cos, sin, slots, cache_pages, 4)
        normed, total = own.add_rms_norm(stream.clone(), stream.flip(0).contiguous(), weight, 1e-6)
        found = {"rotate_and_store": torch.cat((queries.flatten(), cache_pages.flatten()))}
        found |= {"rms_norm": own.rms_norm(stream, weight, 1e-6), "add_rms_norm": torch.cat((normed, total))}
        for window in (None, 9):
            plan = own.plan(spans, 0, shape, window)
            found[f"attend, window {window}"] = own.attend(qkv[:, :width].view(rows, 4, 32), pages, plan, 32**-0.5)
        return found | {f"gate, {name}": own.gate(gates, name) for name in ("silu", "gelu_tanh")}

    theirs = results(other)
    return {name: _difference(result, theirs[name]) for name, result in results(ops).items()}


def _difference(one: Tensor, other: Tensor) -> float:
    """The largest difference, relative to the numbers where they are larger than 1."""
    exact = other.double()
    difference = ((one.double() - exact).abs() / exact.abs().clamp_min(1.0)).max().item()
    return difference if difference == difference else float("inf")
