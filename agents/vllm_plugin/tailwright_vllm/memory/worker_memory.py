"""What one of vLLM's workers holds in memory, read in its own process once its KV cache is there.

Guarantee: a figure that this vLLM does not have, or has in another shape, is left out; nothing here raises, because
vLLM would wait for the answers of the other workers. All figures are bytes; those of weights and of a step are lower
bounds: what a kernel pads, packs or keeps aside is not in them.
"""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from tailwright_vllm.surprises import surprises

_NO_MODEL = frozenset({"ngram", "ngram_gpu", "suffix"})
"""Drafters without weights."""
SIZED_BY_ROOM = "sized_by_room"
"""1 where the KV cache is what was left of the memory that vLLM may use, 0 where its size was given."""
_at_start: dict[str, int] = {}


def note_start(status: Path = Path("/proc/self/status")) -> None:
    """Note what this process holds before it has a model, by the kernel's own account. The first call counts."""
    if _at_start:
        return
    for line in status.read_text().splitlines():
        name, _, value = line.partition(":")
        if name in ("VmRSS", "RssAnon"):
            _at_start[name] = int(value.split()[0]) * 1024


def read_worker(worker: Any) -> dict[str, int]:
    """Its figures by name, those of `_READERS`."""
    found = {}
    for name, read in _READERS.items():
        try:
            value = read(worker)
        except Exception as error:  # noqa: BLE001 - another vLLM's worker may be of any shape.
            surprises.note(f"memory.{name}", f"{name} of vLLM's memory is not told", error)
            continue
        if value is not None:
            found[name] = int(value)
    return found


def _sized_by_room(worker: Any) -> bool:
    """Whether vLLM made its KV cache of what was left of the memory that it may use."""
    cache = worker.vllm_config.cache_config
    return cache.kv_cache_memory_bytes is None and cache.num_gpu_blocks_override is None


def _limit(worker: Any) -> int | None:
    """What vLLM lets itself use where it sizes its KV cache by that, else all there is (of a CPU: of its memory node,
    or its control group's limit)."""
    sized = _sized_by_room(worker)
    if worker.device.type != "cpu":
        return int(worker.requested_memory if sized else worker.init_snapshot.total_memory)
    requested = worker.requested_cpu_memory
    return int(requested if sized else requested / worker.vllm_config.cache_config.gpu_memory_utilization)


def _weights(worker: Any) -> int:
    return _held_bytes(worker.model_runner.get_model(), set())


def _draft_weights(worker: Any) -> int | None:
    """Those that the model does not have, too. None: its drafter is of another shape."""
    speculative = worker.vllm_config.speculative_config
    if speculative is None or speculative.method in _NO_MODEL:
        return 0
    runner, seen = worker.model_runner, set[int]()
    _held_bytes(runner.get_model(), seen)
    drafter = getattr(runner, "drafter", None) or runner.speculator
    return _held_bytes(drafter.model, seen)


def _runtime(worker: Any) -> int | None:
    """Of a CPU what its process held before the model; of a GPU what vLLM's profile run saw kept beside the weights."""
    if worker.device.type == "cpu":
        # Against its own limit vLLM counts mapped files, the kernel drops them where memory is short.
        return _at_start.get("VmRSS" if _sized_by_room(worker) else "RssAnon")
    consumed = getattr(worker, "total_consumed", None)
    return None if consumed is None else max(0, int(consumed) - int(worker.model_runner.model_memory_usage))


def _activation_per_token(worker: Any) -> int | None:
    """The widest output of a product in the language model, which is whole before anything is done with it. None where
    a step's tokens are split."""
    config = worker.vllm_config
    parallel = config.parallel_config
    if getattr(parallel, "enable_dbo", False) or getattr(parallel, "prefill_context_parallel_size", 1) > 1:
        return None
    model = worker.model_runner.get_model()
    language = model.get_language_model() if hasattr(model, "get_language_model") else model
    widths = [width for module, width in _products(language) if not hasattr(module, "num_embeddings")]
    return max(widths) * int(config.model_config.dtype.itemsize) if widths else None


_READERS: dict[str, Callable[[Any], int | None]] = {
    SIZED_BY_ROOM: _sized_by_room,
    "limit_bytes": _limit,
    "weights_bytes": _weights,
    "draft_weights_bytes": _draft_weights,
    "runtime_bytes": _runtime,
    "activation_bytes_per_token": _activation_per_token,
}


def _held_bytes(model: Any, seen: set[int]) -> int:
    """Of parameters and buffers, what several share counted once; `seen`: storages counted already, added to.

    On a CPU vLLM packs a product's weights and leaves an empty one behind: it counts as large as it was.
    """
    total = _storages([*model.parameters(), *model.buffers()], seen)
    for module, width in _products(model):
        weight = getattr(module, "weight", None)
        if weight is not None and weight.numel() == 0:
            total += int(module.input_size_per_partition) * width * int(weight.element_size())
    return total


def _storages(tensors: Iterable[Any], seen: set[int]) -> int:
    total = 0
    for tensor in tensors:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in seen:
            seen.add(storage.data_ptr())
            total += storage.nbytes()
    return total


def _products(model: Any) -> list[tuple[Any, int]]:
    """Its linear layers, embeddings and heads, each with how wide this worker's part of the output is."""
    found = [(module, getattr(module, "output_size_per_partition", None)) for module in model.modules()]
    return [(module, width) for module, width in found if isinstance(width, int)]
