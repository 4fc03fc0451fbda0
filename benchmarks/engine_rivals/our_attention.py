"""One of our engines with its attention exchanged: the native kernel, or torch's scaled dot product by backend."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch.nn.attention import SDPBackend, sdpa_kernel

from agents.engine.ops.ops import Ops
from agents.engine.ops.torch_ops import TorchOps
from benchmarks.engine_rivals import protocol
from benchmarks.engine_rivals.our_engines import ENGINES, decode

_BACKENDS = {"torch, flash": SDPBackend.FLASH_ATTENTION, "torch, math": SDPBackend.MATH}
_OWN = "as the engine chose"


def attention_ways() -> list[str]:
    """What can be measured here; the first is the engine's own choice with its name."""
    own = next(iter(ENGINES.values())).kernels.report
    return [f"{_OWN}: {own}", *_BACKENDS]


def attention(name: str, way: str, shared: list[int], prompts: list[list[int]], new_tokens: int) -> dict[str, Any]:
    """Seconds to take in `shared` from nothing, then the decode of prompts that begin with it; see `decode`."""
    engine = ENGINES[name]
    engine.pool.reset_cache()
    with _exchanged(name, way):
        began = time.perf_counter()
        decode(name, [shared], 1)
        prefill_s = time.perf_counter() - began
        found = decode(name, prompts, new_tokens)
    return {"prefill_s": prefill_s, "decode_tokens": found["decode_tokens"], "decode_s": found["decode_s"]}


class _TorchAttention:
    """An engine's own operations with torch's attention in place of theirs."""

    def __init__(self, own: Ops) -> None:
        self._own = own
        torch_ops = TorchOps()
        self.plan, self.attend = torch_ops.plan, torch_ops.attend

    def __getattr__(self, name: str) -> Any:
        return getattr(self._own, name)


@contextmanager
def _exchanged(name: str, way: str) -> Iterator[None]:
    if way.startswith(_OWN):
        yield
        return
    decoder = ENGINES[name].runner.decoder
    before = decoder.ops
    exchanged: Any = _TorchAttention(before)
    decoder.ops = exchanged
    try:
        with sdpa_kernel(_BACKENDS[way]):
            yield
    finally:
        decoder.ops = before


HANDLERS: dict[str, protocol.Handler] = {"attention_ways": attention_ways, "attention": attention}
