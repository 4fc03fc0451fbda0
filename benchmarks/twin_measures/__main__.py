"""`python -m benchmarks.twin_measures`: the twin's error against the real engine, its speed on a long trace; the
error of forecasts for other hardware on a public table (`--table`)."""

import argparse
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.engine_measures.machine import commit, describe_machine
from benchmarks.twin_measures import against_server, against_vllm, measured_table
from benchmarks.twin_measures.against_engine import Compared, compare, report
from benchmarks.twin_measures.trace_speed import speed

ROOT = Path(__file__).resolve().parents[2]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.twin_measures", description=__doc__)
    parser.add_argument("--model", type=Path, default=ROOT / "agents/models/tailwright-py-5m")
    parser.add_argument("--requests", type=int, default=300, help="of a trace that the engine serves")
    parser.add_argument("--rate", type=float, default=6.0, help="requests a second of it")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--engine", choices=("embedded", "vllm", "vllm-server"), default="embedded")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--dtype", choices=("float32", "bfloat16"), default="float32")
    parser.add_argument("--kv-bytes", type=int, default=64 * 2**20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--mooncake", type=Path, help="conversation_trace.jsonl; without it, no speed")
    parser.add_argument("--trace-requests", type=int, default=12_031, help="of that trace, from its start")
    parser.add_argument("--table", type=Path, help="silicon_sample.csv of aiconfigurator, or a part of it: only that")
    given = parser.parse_args()
    print(f"{describe_machine(given.device)}\n- commit {commit()}, seed {given.seed}\n")
    if given.table is not None:
        print(measured_table.report(given.table, given.seed))
        return 0
    if given.engine == "vllm-server":
        with TemporaryDirectory() as folder:
            of_server = (given.model, Path(folder), given.requests, given.rate, given.seed, given.rounds)
            whole: list[tuple[list[Compared], list[Compared]]] = []
            for number, both in enumerate(against_server.compare(*of_server), start=1):
                whole.append(both)
                as_told, paced = ([found[place] for found in whole] for place in (0, 1))
                print(f"After {number} of {given.rounds} rounds:\n\n{report(as_told)}\n")
                print(f"At the pace that the server had beside each:\n\n{report(paced)}\n", flush=True)
        return 0
    if given.engine == "vllm":
        seen = []
        with TemporaryDirectory() as folder:
            of_vllm = (given.model, Path(folder), given.requests, given.rate, given.seed, given.rounds)
            for number, forecasts in enumerate(against_vllm.compare(*of_vllm), start=1):
                seen.append(forecasts)
                print(f"After {number} of {given.rounds} rounds:\n\n{report(seen)}\n", flush=True)
        return 0
    if given.requests:
        sizes = (given.model, given.requests, given.rate, given.seed, given.rounds, given.kv_bytes)
        found = []
        for number, (one, together) in enumerate(compare(*sizes, device=given.device, dtype=given.dtype), start=1):
            found.append(one)
            print(f"After {number} of {given.rounds} rounds:\n\n{report(found)}\n", flush=True)
            if number > 1:
                print(f"Of these together:\n\n{report([together])}\n", flush=True)
    if given.mooncake is not None:
        print(f"\n{speed(given.mooncake, given.trace_requests)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
