"""A surface measured once: the embedded engine with the bundled model, every configuration of a grid, with repeats.

    python -m benchmarks.tuner_measures.engine_grid > benchmarks/tuner_measures/engine_grid.csv

The real engine computes every token. Its clock is the processor time of this process, one thread: a request arrives
when so much has been spent, and time in which nothing is there to do is skipped. So other processes on the machine
neither stand in the queue nor in the figures, but for what they do to caches. Two slices of one traffic: a search may
see `a`, never `b`. Configurations come in a new random order in each round.
"""

import argparse
import csv
import platform
import random
import sys
import time
from dataclasses import dataclass
from itertools import pairwise, product
from typing import Any

import numpy as np
import torch
from tokenizers import Tokenizer

from agents.engine.core.event_log import EventLog
from agents.engine.core.step import StepEngine
from agents.engine.options import BUNDLED, EngineOptions
from agents.engine.request.params import SamplingParams
from agents.engine.scheduling.request import Request
from controlplane.contract.bodies.workload import Workload
from controlplane.contract.knobs import QUANTIZATION, parse_config
from tuner.workload.corpus import read_tokens
from tuner.workload.generate import CONV, fitted, generate
from tuner.workload.prompt import PromptMaker

GRID: dict[str, list[Any]] = {
    "max_num_batched_tokens": [32, 64, 128, 256, 512, 1024],
    "prefill_chunk_size": [128, 0],
    "num_speculative_tokens": [0, 1, 3],
    QUANTIZATION: ["none", "int8"],
}
FIXED = {"max_num_seqs": 16}
SHAPE = fitted(CONV, max_input=1200, max_output=120)
QUANTILES = (("e2e", 0.95), ("ttft", 0.95), ("itl", 0.99), ("e2e", 0.5))


@dataclass(frozen=True)
class Load:
    """What is replayed: `requests` of each slice at `rate_per_s` requests a second of processor time."""

    rate_per_s: float
    requests: int
    seed: int

    def slices(self) -> dict[str, Workload]:
        return {
            name: generate(SHAPE, seed=self.seed + place, rate_per_s=self.rate_per_s, requests=self.requests)
            for place, name in enumerate("ab")
        }


def replay(engine: StepEngine, workload: Workload, prompts: list[list[int]]) -> dict[str, float]:
    """Quantiles in seconds of processor time. The prefix cache is empty at the start."""
    engine.pool.reset_cache()
    arrivals = [request.timestamp / 1000.0 for request in workload.requests]
    coming = [
        Request(str(place), prompt, SamplingParams(max(1, asked.output_length)))
        for place, (asked, prompt) in enumerate(zip(workload.requests, prompts, strict=True))
    ]
    tokens_at: dict[str, list[float]] = {request.request_id: [] for request in coming}
    now, sent = 0.0, 0
    while sent < len(coming) or engine.scheduler.has_work:
        if not engine.scheduler.has_work:
            now = max(now, arrivals[sent])
        while sent < len(coming) and arrivals[sent] <= now:
            engine.scheduler.add(coming[sent])
            sent += 1
        began = time.process_time()
        outputs = engine.step()
        now += time.process_time() - began
        for output in outputs:
            tokens_at[output.request.request_id].append(now)
    times = [tokens_at[str(place)] for place in range(len(coming))]
    values = {
        "ttft": [own[0] - arrived for own, arrived in zip(times, arrivals, strict=True)],
        "e2e": [own[-1] - arrived for own, arrived in zip(times, arrivals, strict=True)],
        "itl": [after - before for own in times for before, after in pairwise(own)],
    }
    return {f"{metric}:{q:g}": float(np.quantile(values[metric], q)) for metric, q in QUANTILES}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rate", type=float, default=30.0, help="requests a second of processor time")
    options.add_argument("--requests", type=int, default=40)
    options.add_argument("--repeats", type=int, default=2, help="of each configuration on slice a; on b one")
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--most", type=int, default=0, help="configurations, to see that it works; 0: all")
    chosen = options.parse_args()
    torch.set_num_threads(1)
    load = Load(chosen.rate, chosen.requests, chosen.seed)
    tokenizer = Tokenizer.from_file(str(BUNDLED / "tokenizer.json"))
    corpus = read_tokens(lambda text: tokenizer.encode(text, add_special_tokens=False).ids, 60_000)
    print(f"# {load}; {SHAPE}; other knobs {FIXED}; {BUNDLED.name}, n-gram drafts, one thread, processor time")
    print(f"# python {platform.python_version()}, torch {torch.__version__}, {platform.machine()}")
    table = csv.writer(sys.stdout)
    names = [f"{metric}:{q:g}" for metric, q in QUANTILES]
    table.writerow([*GRID, "slice", "repeat", *names])
    draw, slices = random.Random(chosen.seed), load.slices()
    with torch.inference_mode():
        engines = {}
        for name in GRID[QUANTIZATION]:
            engines[name] = StepEngine(
                EngineOptions(config=parse_config({QUANTIZATION: name}), threads=1, kv_cache_memory_bytes=64 * 2**20),
                EventLog(),
            )
            engines[name].warm_up()
        for repeat in range(-1, chosen.repeats):  # The first round warms up, on few.
            configs = [dict(zip(GRID, values, strict=True)) for values in product(*GRID.values())]
            configs = [knobs for knobs in configs if knobs["max_num_batched_tokens"] > knobs["num_speculative_tokens"]]
            configs = [
                knobs
                for knobs in configs
                if not knobs["prefill_chunk_size"] or knobs["prefill_chunk_size"] < knobs["max_num_batched_tokens"]
            ]
            draw.shuffle(configs)
            for knobs in configs[: 4 if repeat < 0 else chosen.most or None]:
                engine = engines[knobs[QUANTIZATION]]
                engine.scheduler.config = parse_config({**FIXED, **knobs})
                for slice_name, workload in slices.items():
                    if slice_name == "b" and repeat > 0:
                        continue
                    salt = repeat + 1 if slice_name == "a" else 1000 + repeat
                    prompts = PromptMaker(corpus, block_size=workload.block_size, salt=salt).prompts(workload)
                    found = replay(engine, workload, prompts)
                    if repeat >= 0:
                        row = [f"{found[name]:.5f}" for name in names]
                        table.writerow([*knobs.values(), slice_name, repeat, *row])
                sys.stdout.flush()


if __name__ == "__main__":
    main()
