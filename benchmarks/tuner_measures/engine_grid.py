"""Measure a whole grid of configurations on a real engine, so that searches can be replayed on what it did.

    python -m benchmarks.tuner_measures.engine_grid --out benchmarks/tuner_measures/surfaces/embedded.json
    python -m benchmarks.tuner_measures.engine_grid --device cuda --model DIR --out ...
    python -m benchmarks.tuner_measures.engine_grid --engine vllm --out benchmarks/tuner_measures/surfaces/vllm.json

Every configuration serves two slices of traffic, each `--repeats` times, in another order each time, so that what
wanders in a machine lies on all alike. The engine's clock is moved by its steps' processor time, on a GPU by the wall's
(`recorded_engine`, `stepped_vllm`); prompts are real text in the bundled model's tokens, so that drafts are accepted as
they are on it: DIR is a model with its vocabulary (`benchmarks.engine_rivals.widened`). The file is rewritten after
each run.
"""

import argparse
import json
import math
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path
from random import Random
from typing import Any, Protocol

import numpy as np
from transformers import AutoTokenizer

from agents.engine.options import BUNDLED
from benchmarks.engine_measures.machine import commit, describe_machine
from benchmarks.tuner_measures.stepped_vllm import SteppedVllm
from benchmarks.twin_measures.recorded_engine import RecordedEngine, Served
from controlplane.contract.knobs import EngineConfig, canonical_json, parse_config
from tuner.twin.dealt_traffic import Scale, dealt
from tuner.twin.simulated_engine import Arrival
from tuner.workload.corpus import read_tokens
from tuner.workload.generate import SHAPES, fitted, generate
from tuner.workload.prompt import PromptMaker

VALUES: dict[str, Sequence[Any]] = {
    "max_num_batched_tokens": [16, 32, 64, 128, 256, 512, 1024],
    "prefill_chunk_size": [16, 64, 256, 0],
    "num_speculative_tokens": [0, 2, 4],
    "quantization": ["none", "int8"],
    "max_num_seqs": [4, 16],
}
CUDA_VALUES: dict[str, Sequence[Any]] = {
    "max_num_batched_tokens": [64, 512, 4096],
    "prefill_chunk_size": [64, 0],
    "num_speculative_tokens": [0, 3],
    "quantization": ["none", "fp8"],
    "max_num_seqs": [8, 32],
}
VLLM_VALUES: dict[str, Sequence[Any]] = {
    "max_num_batched_tokens": [32, 64, 128, 256, 512, 2048],
    "prefill_chunk_size": [32, 128, 0],
    "num_speculative_tokens": [0, 2, 4],
    "max_num_seqs": [4, 16],
}
CORPUS_TOKENS = 200_000


class Engine(Protocol):
    """What a grid is measured on."""

    def serve(self, arrivals: Sequence[Arrival], config: EngineConfig) -> Served: ...


def grid(ranges: Mapping[str, Sequence[Any]] = VALUES) -> list[EngineConfig]:
    """Each once: a piece that no step can reach is none."""
    found = {}
    for values in product(*ranges.values()):
        knobs = dict(zip(ranges, values, strict=True))
        if knobs["prefill_chunk_size"] >= knobs["max_num_batched_tokens"]:
            knobs["prefill_chunk_size"] = 0
        config = parse_config(knobs)
        found[canonical_json(config.knobs())] = config
    return list(found.values())


def traffic(seed: int, requests: int, rate: float, corpus: Sequence[int]) -> list[Arrival]:
    """One slice, with prompts out of real text; equal where those of the trace are equal."""
    shape = fitted(SHAPES["chat"], max_input=700, max_output=64)
    trace = generate(shape, seed=seed, rate_per_s=rate, requests=requests)
    prompts = PromptMaker(corpus, block_size=trace.block_size, salt=seed).prompts(trace)
    ((_, arrivals),) = dealt(trace, 1, Scale(), 0)
    return [replace(one, prompt=partial(_same, tokens)) for one, tokens in zip(arrivals, prompts, strict=True)]


def _same(tokens: Sequence[int]) -> Sequence[int]:
    return tokens


def figures(served: Served) -> dict[str, float]:
    """Seconds; tpot: a request's mean time between its tokens."""
    return {
        "e2e:0.5": float(np.quantile(served.e2e_s, 0.5)),
        "ttft:0.95": float(np.quantile(served.ttft_s, 0.95)),
        "tpot:0.95": float(np.quantile(served.tpot_s, 0.95)),
    }


def rounds(
    engine: Engine, configs: list[EngineConfig], slices: Sequence[Sequence[Arrival]], repeats: int, seed: int
) -> Iterator[tuple[int, int, str, Served]]:
    """(round, slice, configuration as JSON, what was served), in order. Weights are swapped twice a round."""
    random = Random(seed)
    for number in range(repeats):
        random.shuffle(configs)
        for config in sorted(configs, key=lambda one: one.quantization):
            for place, arrivals in enumerate(slices):
                yield number, place, canonical_json(config.knobs()), engine.serve(arrivals, config)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--requests", type=int, default=60, help="of a slice")
    parser.add_argument("--rate", type=float, default=20.0, help="requests a second, of the engine's clock")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--model", type=Path, default=BUNDLED)
    parser.add_argument("--engine", choices=("embedded", "vllm"), default="embedded")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--dtype", choices=("float32", "bfloat16"), default="float32")
    parser.add_argument("--kv-bytes", type=int, default=64 * 2**20)
    parser.add_argument("--limit-s", type=float, default=math.inf, help="begin no run later; the first round is whole")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    tokenizer = AutoTokenizer.from_pretrained(BUNDLED)
    corpus = read_tokens(lambda text: tokenizer.encode(text, add_special_tokens=False), CORPUS_TOKENS)
    slices = [traffic(given.seed + place, given.requests, given.rate, corpus) for place in (0, 1)]
    values = VALUES if given.device == "cpu" else CUDA_VALUES
    if given.engine == "vllm":
        values = VLLM_VALUES
    told: dict[str, Any] = {
        "machine": describe_machine(given.device),
        "model": given.model.name,
        "dtype": given.dtype,
        "commit": commit(),
        "requests": given.requests,
        "rate_per_s": given.rate,
        "seed": given.seed,
        "values": values,
        "runs": {},
    }
    with ExitStack() as ends:
        engine: Engine
        if given.engine == "vllm":
            vllm = ends.enter_context(SteppedVllm(given.model, Path(ends.enter_context(tempfile.TemporaryDirectory()))))
            told["engine"], engine = f"vllm {vllm.version}", vllm
        else:
            engine = RecordedEngine(given.model, given.kv_bytes, device=given.device, dtype=given.dtype)
        measure(engine, grid(values), slices, told, given)


def measure(
    engine: Engine,
    configs: list[EngineConfig],
    slices: Sequence[Sequence[Arrival]],
    told: dict[str, Any],
    given: argparse.Namespace,
) -> None:
    """Into the file that was asked for, anew after each run."""
    began, every = time.monotonic(), rounds(engine, configs, slices, given.repeats, given.seed)
    for count, (number, place, key, served) in enumerate(every, start=1):
        runs: list[list[dict[str, float]]] = told["runs"].setdefault(key, [[], []])
        runs[place].append({name: round(value, 7) for name, value in figures(served).items()})
        if number and time.monotonic() - began > given.limit_s:
            break
        if count % 20 == 0:
            print(f"[{time.monotonic() - began:6.0f} s] round {number + 1}, {count} runs", flush=True)
        given.out.write_text(json.dumps(told, separators=(",", ":")) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
