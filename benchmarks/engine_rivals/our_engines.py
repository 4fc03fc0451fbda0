"""Our engine in process, stepped by hand. One worker holds several engines, so that variants interleave."""

import gc
import time
from pathlib import Path
from typing import Any

import torch

from agents.engine.core.effective_config import read_back
from agents.engine.core.event_log import EventLog
from agents.engine.core.step import StepEngine
from agents.engine.options import EngineOptions, SpeculativeMethod
from agents.engine.request.params import SamplingParams
from agents.engine.scheduling.request import Request
from benchmarks.engine_rivals import protocol
from benchmarks.engine_rivals.decode_clock import DecodeClock
from controlplane.contract.knobs import parse_config

ENGINES: dict[str, StepEngine] = {}


def load(name: str, options: dict[str, Any], knobs: dict[str, Any]) -> dict[str, Any]:
    """Put an engine under a name. options: `EngineOptions`, folders as strings; knobs: those of the configuration."""
    made = EngineOptions(**options, config=parse_config(knobs))
    torch.set_num_threads(made.threads)
    began = time.perf_counter()
    with torch.inference_mode():
        engine = StepEngine(made, EventLog())
        engine.warm_up()
    ENGINES[name] = engine
    return {
        "versions": f"torch {torch.__version__}",
        "threads": torch.get_num_threads(),
        "load_s": time.perf_counter() - began,
        "capabilities": read_back(engine).capabilities,
        "kernels": engine.kernels.report,
    }


def unload(names: list[str]) -> None:
    for name in names:
        ENGINES.pop(name, None)
    gc.collect()


def set_knobs(name: str, knobs: dict[str, Any]) -> None:
    """Live knobs of an idle engine."""
    engine = ENGINES[name]
    assert not engine.scheduler.has_work
    engine.scheduler.config = parse_config(knobs, base=engine.scheduler.config)


def forget(name: str) -> None:
    """Drop every cached prefix of an idle engine."""
    ENGINES[name].pool.reset_cache()


def offered() -> dict[str, Any]:
    """What this engine's options can be, for measures of techniques that it may or may not have."""
    return {
        "options": sorted(EngineOptions.__dataclass_fields__),
        "methods": [str(method) for method in SpeculativeMethod],
    }


def decode(name: str, prompts: list[list[int]], new_tokens: int) -> dict[str, Any]:
    """Greedy, all at once, EOS ignored."""
    engine = ENGINES[name]
    requests = [Request(str(number), prompt, SamplingParams(new_tokens)) for number, prompt in enumerate(prompts)]
    clock = DecodeClock(len(prompts))
    with torch.inference_mode():
        for request in requests:
            engine.scheduler.add(request)
        while engine.scheduler.has_work:
            engine.step()
            clock.step([request.num_outputs for request in requests if request.num_outputs])
    return clock.result([request.tokens[request.prompt_length :] for request in requests])


def prefill(name: str, prompt: list[int]) -> float:
    """Seconds until the first token."""
    began = time.perf_counter()
    decode(name, [prompt], 1)
    return time.perf_counter() - began


def weight_bytes(name: str) -> int:
    """Bytes of weights that one decode step reads: every distinct tensor of the decoder, the embedding only where the
    head is tied to it (a lookup reads one row)."""
    folder = ENGINES[name].options.model
    config = ENGINES[name].model_config
    from safetensors import safe_open

    elements = 0
    for path in sorted(Path(folder).glob("*.safetensors")):
        with safe_open(path, framework="pt") as opened:
            for key in opened.keys():  # noqa: SIM118 - safe_open is no mapping.
                shape = opened.get_slice(key).get_shape()
                size = 1
                for extent in shape:
                    size *= extent
                if "embed_tokens" in key and not config.tie_word_embeddings:
                    continue
                elements += size
    dtype: torch.dtype = getattr(torch, ENGINES[name].options.dtype)
    return elements * dtype.itemsize


def read_bandwidth(megabytes: int, repeats: int) -> list[float]:
    """Bytes a second of summing a large float32 buffer with this worker's threads, each repeat."""
    buffer = torch.ones(megabytes * 2**20 // 4)
    buffer.sum()
    rates = []
    for _ in range(repeats):
        began = time.perf_counter()
        buffer.sum()
        rates.append(buffer.numel() * 4 / (time.perf_counter() - began))
    return rates


HANDLERS: dict[str, protocol.Handler] = {
    "load": load,
    "unload": unload,
    "set_knobs": set_knobs,
    "forget": forget,
    "offered": offered,
    "decode": decode,
    "prefill": prefill,
    "weight_bytes": weight_bytes,
    "read_bandwidth": read_bandwidth,
}
