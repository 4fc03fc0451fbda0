"""Which way an unquantized layer is computed here: timed once, among those in which a row's bits are its own.

Guarantees: all the layers of one size and dtype get one way, at every number of rows; a library's way is taken only
after a look at its bits (row_bits.py), else a way that keeps them by construction. A choice is made once per processor,
size, dtype and number of threads, within `BUDGET_S` for all sizes of a process, and kept (kept_choices.py); what there
was no time for, or could not be timed beside other processes, gets its first candidate, which is said and not kept.
"""

import logging
import os
from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter

import torch
from torch import Tensor

from agents.engine.ops.kept_choices import Choice, KeptChoices
from agents.engine.ops.library import MARCH_VARIABLE, sources_digest
from agents.engine.ops.preference import ranked
from agents.engine.ops.processor_identity import processor_flags, processor_name
from agents.engine.quantization import native_choice
from agents.engine.quantization.plain import WIDE, Amx, Bfloat16, Blas, Packed, PlainLinear, SingleRows, Wide
from agents.engine.quantization.row_bits import rows_are_their_own
from agents.engine.quantization.trial import MOST_WEIGHTS, Times, times_of

BUDGET_S = 5.0
_SHARE_S = 1.0  # Of the budget, for one size.
_LEAST_WEIGHTS = 2**16  # Below, a layer takes microseconds in any way.
_LEASTS = (1, 2, 4, 16)
_SETTINGS = ("ATEN_CPU_CAPABILITY", "ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA", "MKL_ENABLE_INSTRUCTIONS", MARCH_VARIABLE)

Build = Callable[[Tensor, Tensor | None], PlainLinear]

_log = logging.getLogger(__name__)
_decided: dict[tuple[str, str], Choice] = {}  # By file and layer.
_spent_s = 0.0


@dataclass(frozen=True)
class Candidate:
    """name: as kept; is_ours: whether its rows' bits are their own by construction."""

    name: str
    build: Build
    is_ours: bool


def candidates(dtype: torch.dtype, kernels: str) -> list[Candidate]:
    """The ways that can be had on this CPU, the one that wins when there is nothing between them first.

    Raises `BadRequest` (kernels) when `native` is asked for and no native kernel can be had.
    """
    found = []
    if dtype is torch.bfloat16:
        # A processor without AMX lacks nothing that is worth a warning.
        if kernels != "torch" and "amx_bf16" in processor_flags() and native_choice.choose("amx").native:
            found.append(Candidate("amx", Amx, True))
        if native_choice.choose("bfloat16", "torch" if kernels == "torch" else "auto").native:
            found.append(Candidate("bfloat16", Bfloat16, True))
    if native_choice.choose(WIDE[dtype], "auto" if found else kernels).native:
        found.append(Candidate("wide", Wide, True))
    if kernels == "native":
        return found
    if _packs(dtype):
        found.append(Candidate("onednn", Packed, False))
    return [*found, Candidate("blas", Blas, False)]


def build(weight: Tensor, bias: Tensor | None, kernels: str = "auto") -> PlainLinear:
    """A layer on the CPU. weight: (out, in), float32, bfloat16 or float16."""
    outputs, inputs = weight.shape
    layer = f"{outputs} x {inputs} {str(weight.dtype).removeprefix('torch.')}, kernels {kernels}"
    able = {candidate.name: candidate for candidate in candidates(weight.dtype, kernels)}
    kept = _kept()
    if (choice := _decided.get((str(kept.path), layer))) is None:
        global _spent_s
        with kept.alone():
            choice = kept.read().get(layer)
            if choice is None or choice.kernel not in {*able, "single rows"}:
                began = perf_counter()
                choice, is_final = _decide(layer, able, weight, bias)
                _spent_s += perf_counter() - began
                if is_final:
                    kept.add(layer, choice)
        _decided[str(kept.path), layer] = choice
    return _made(choice, able, weight, bias)


def _made(choice: Choice, able: dict[str, Candidate], weight: Tensor, bias: Tensor | None) -> PlainLinear:
    made = SingleRows(weight, bias) if choice.kernel not in able else able[choice.kernel].build(weight, bias)
    if isinstance(made, Packed | Blas):
        made.least = choice.least
    made.microseconds = choice.microseconds
    return made


def _decide(layer: str, able: dict[str, Candidate], weight: Tensor, bias: Tensor | None) -> tuple[Choice, bool]:
    """The choice, and whether it is to be kept."""
    order, seconds, is_final = list(able), {}, weight.numel() >= _LEAST_WEIGHTS
    if is_final and len(able) > 1:
        left = BUDGET_S - _spent_s
        if left <= 0:
            _log.warning("no time left of %.0f s to choose a kernel for %s: it gets %s", BUDGET_S, layer, order[0])
            is_final = False
        else:
            if not _spent_s:
                _log.warning("choosing kernels by timing them: at most %.0f s, once per processor", BUDGET_S)
            times = _times(able, weight, bias, perf_counter() + min(_SHARE_S, left))
            if times.quiet:
                seconds = times.seconds
                order = ranked(seconds)
            else:
                _log.warning("other processes kept the cores too busy to time kernels for %s: %s", layer, _UNTIMED)
                is_final = False
    microseconds = {
        name: {str(rows): round(taken * 1e6, 1) for rows, taken in own.items()} for name, own in seconds.items()
    }
    for name in order:
        if (least := _least(able[name], weight, bias)) is not None:
            if seconds:
                _log.info("%s: %s, of %s (us by rows)", layer, name, microseconds)
            return Choice(name, least, microseconds), is_final
        _log.info("%s: not %s, with which a row's bits depend on the rows beside it", layer, name)
    _log.warning("%s: no kernel keeps a row's bits its own, so rows are computed one by one; %s", layer, _MEND)
    return Choice("single rows", 1, microseconds), is_final


_UNTIMED = "it gets the first that can be had, and the next start times them"
_MEND = "install a C++ compiler for the native kernels (Debian: apt-get install g++)"


def _times(able: dict[str, Candidate], weight: Tensor, bias: Tensor | None, deadline: float) -> Times:
    inputs = weight.shape[1]
    some = weight[: max(1, MOST_WEIGHTS // inputs)].contiguous()
    own_bias = None if bias is None else bias[: some.shape[0]].contiguous()
    ways = {name: candidate.build(some, own_bias) for name, candidate in able.items()}
    return times_of(ways, weight.nbytes, inputs, weight.dtype, deadline)


def _least(candidate: Candidate, weight: Tensor, bias: Tensor | None) -> int | None:
    """The fewest rows that this way must compute at once for a row's bits to be its own; None: no number helps."""
    if candidate.is_ours:
        return 1
    layer = candidate.build(weight, bias)
    assert isinstance(layer, Packed | Blas)
    for layer.least in _LEASTS:
        if rows_are_their_own(layer, layer.size, weight.dtype):
            return layer.least
    return None


def _kept() -> KeptChoices:
    return KeptChoices(
        {
            "processor": processor_name(),
            "torch": torch.__version__,
            "kernels": sources_digest(),
            "threads": torch.get_num_threads(),
            "settings": {name: os.environ[name] for name in _SETTINGS if os.environ.get(name)},
        }
    )


def _packs(dtype: torch.dtype) -> bool:
    """Whether oneDNN computes this format: half precision only where the processor has it."""
    if not torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
        return False
    if dtype is torch.float16:
        return bool(torch.ops.mkldnn._is_mkldnn_fp16_supported())
    return dtype is not torch.bfloat16 or bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())
