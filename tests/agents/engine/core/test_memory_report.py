"""An engine's figures of its memory, held against its real tensors: those it holds, and those that a step allocates."""

import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from agents.engine.core.engine import Engine
from agents.engine.core.event_log import EventLog
from agents.engine.core.memory_report import device_bytes, read_memory
from agents.engine.core.step import StepEngine
from agents.engine.model.runner import Rows
from agents.engine.options import BUNDLED, EngineOptions, SpeculativeMethod
from controlplane.contract.errors import Conflict
from controlplane.contract.knobs import EngineConfig, Quantization


def engine(model: Path = BUNDLED, **options: Any) -> StepEngine:
    options = {"kernels": "torch", "kv_cache_memory_bytes": 2**22, **options}
    return StepEngine(EngineOptions(model, **options), EventLog())


def walked_bytes(root: object) -> int:
    """Every tensor that can be reached from an object, each place once, found without knowing what there is."""
    seen: set[int] = set()
    places: dict[int, int] = {}
    left = [root]
    while left:
        one = left.pop()
        if id(one) in seen or isinstance(one, type | str | Quantization):
            continue
        seen.add(id(one))
        if isinstance(one, torch.Tensor):
            place = id(one) if one.is_mkldnn else one.data_ptr()
            places[place] = max(places.get(place, 0), one.numel() * one.element_size())
        elif isinstance(one, list | tuple):
            left += one
        elif isinstance(one, dict):
            left += one.values()
        elif type(one).__module__.startswith("agents.engine"):
            left += vars(one).values()
    return sum(places.values())


@pytest.mark.parametrize("kernels", ["torch", "auto"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_weights_and_cache_are_those_that_the_engine_holds(kernels: str, dtype: str) -> None:
    one = engine(kernels=kernels, dtype=dtype)
    found = read_memory(one)
    assert found.weights_bytes == walked_bytes(one.runner.decoder)
    assert found.kv_cache_memory_bytes == walked_bytes(one.runner) - found.weights_bytes
    # One block more than the option pays for: the null block.
    block = found.kv_cache_memory_bytes // (one.pool.num_blocks + 1)
    assert 0 <= 2**22 - (found.kv_cache_memory_bytes - block) < block
    assert found.kv_cache_size_tokens == one.pool.num_blocks * one.options.block_size
    assert found.draft_weights_bytes == 0 and found.max_model_len == one.max_model_len


def test_every_family_is_counted_whole(model_dir: Path) -> None:
    one = engine(model_dir)
    assert read_memory(one).weights_bytes == walked_bytes(one.runner.decoder)


@pytest.mark.parametrize("kernels", ["torch", "auto"])
def test_a_formats_figure_is_no_more_than_what_it_then_holds(kernels: str) -> None:
    one = engine(kernels=kernels)
    before = read_memory(one)
    for name in (Quantization.INT8, Quantization.FP8, Quantization.INT4, Quantization.NONE):
        one.swap_weights(name)
        after = read_memory(one)
        held, told = after.weights_bytes, before.weights_bytes_by_format[name.value]
        assert held is not None and held == walked_bytes(one.runner.decoder)
        # The torch twin of int4 holds a byte for each code.
        most = 2.0 if (kernels, name) == ("torch", Quantization.INT4) else 1.1
        assert told <= held <= most * told, name
        assert after.weights_bytes_by_format[name.value] == held


def test_a_draft_models_weights_and_pages_are_told() -> None:
    alone = read_memory(engine())
    one = engine(speculative_method=SpeculativeMethod.DRAFT_MODEL, draft_model=BUNDLED)
    found = read_memory(one)
    assert found.draft_weights_bytes == alone.weights_bytes
    assert found.kv_cache_memory_bytes is not None and alone.kv_cache_memory_bytes is not None
    assert abs(found.kv_cache_memory_bytes - alone.kv_cache_memory_bytes) < 2**18
    assert found.kv_cache_size_tokens is not None and alone.kv_cache_size_tokens is not None
    assert found.kv_cache_size_tokens <= alone.kv_cache_size_tokens / 2 + one.options.block_size


class Allocations(TorchDispatchMode):
    """The most bytes that tensors made while it is on held at once."""

    def __init__(self) -> None:
        super().__init__()
        self.now = self.most = 0
        self._known: set[int] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        for one in made if isinstance(made, list | tuple) else (made,):
            if isinstance(one, torch.Tensor):
                self._count(one.untyped_storage())
        return made

    def _count(self, storage: torch.UntypedStorage) -> None:
        place, size = storage.data_ptr(), storage.nbytes()
        if place in self._known or not size:
            return
        self._known.add(place)
        self.now += size
        self.most = max(self.most, self.now)
        weakref.finalize(storage, self._freed, place, size)

    def _freed(self, place: int, size: int) -> None:
        self._known.discard(place)
        self.now -= size


@pytest.mark.parametrize("wants_logits", [True, False])
def test_a_step_allocates_at_least_what_is_told_of_it(wants_logits: bool) -> None:
    one = engine()
    found = read_memory(one)
    tokens = 512
    table = [list(range(1, tokens // one.options.block_size + 1))]
    with torch.inference_mode(False), torch.no_grad(), Allocations() as seen:
        one.runner.forward([Rows([5] * tokens, 0, table, tokens if wants_logits else 1)])
    assert found.activation_bytes_per_token and found.logits_bytes_per_token
    told = tokens * (found.logits_bytes_per_token if wants_logits else found.activation_bytes_per_token)
    assert told <= seen.most <= 6 * told  # Some kernels that a machine may choose copy more than others.


def test_the_devices_memory_is_no_more_than_the_machines() -> None:
    machine = next(line for line in Path("/proc/meminfo").read_text().splitlines() if line.startswith("MemTotal:"))
    assert 2**20 < device_bytes(torch.device("cpu")) <= int(machine.split()[1]) * 1024


@pytest.mark.slow
def test_an_engine_refuses_by_itself_what_cannot_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    module = "agents.engine.core.memory_report.device_bytes"
    weights = read_memory(engine()).weights_bytes
    assert weights is not None
    monkeypatch.setattr(module, lambda device: weights + 2**22 + 2**23)
    served = Engine(EngineOptions(BUNDLED, kernels="torch", kv_cache_memory_bytes=2**22))
    served.start()
    try:
        with pytest.raises(Conflict, match=r"^knobs\.max_num_batched_tokens: it does not fit the memory") as raised:
            served.set_config(EngineConfig(max_num_batched_tokens=8192))
        assert raised.value.detail["field"] == "knobs.max_num_batched_tokens"
        assert served.set_config(EngineConfig(max_num_seqs=16)).result(30.0).config.max_num_seqs == 16
    finally:
        served.stop()


def test_what_a_swap_holds_at_once_is_told_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    one = engine()
    assert read_memory(one).swap_holds_both is True
    old = one.runner.decoder
    load: Callable[[Quantization], Any] = one._load
    held: list[bool] = []

    def loading(quantization: Quantization) -> Any:
        made = load(quantization)
        held.append(one.runner.decoder is old)
        return made

    monkeypatch.setattr(one, "_load", loading)
    one.swap_weights(Quantization.INT8)
    assert held == [True] and one.runner.decoder is not old
