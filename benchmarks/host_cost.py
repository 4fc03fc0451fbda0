"""What it costs an agent to measure its host: CPU of one sample, and its share of a window.

    python benchmarks/host_cost.py [--rounds 200] [--neighbours 8]

The engine is a stand-in: a process that listens, with as many threads as asked for (the embedded engine has 6, a vLLM
server with its children some hundreds), each of them read in each window. Neighbours are other agents of the host, each
with an engine of its own. Shown is CPU time of this thread, system calls included.
"""

import argparse
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from agents.host.host_sampler import Sampler
from agents.host.neighbours import Neighbours
from controlplane.contract.metrics import WINDOW_S

STAND_IN = """
import socket, sys, threading, time
for _ in range(int(sys.argv[1]) - 1): threading.Thread(target=time.sleep, args=(3600,), daemon=True).start()
s = socket.socket(); s.bind(("127.0.0.1", 0)); s.listen(); print(s.getsockname()[1], flush=True)
time.sleep(3600)
"""


def stand_in(threads: int) -> tuple["subprocess.Popen[str]", int]:
    """The process and the port that it listens on."""
    child = subprocess.Popen([sys.executable, "-c", STAND_IN, str(threads)], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    return child, int(child.stdout.readline())


def measure(threads: int, neighbours: int, rounds: int) -> list[float]:
    """Milliseconds of CPU of each sample."""
    engine, port = stand_in(threads)
    others = [stand_in(1)[0] for _ in range(neighbours)]
    try:
        with tempfile.TemporaryDirectory() as folder:
            for other in others:
                Neighbours(Path(folder), "chat", agent_pid=other.pid).tell([(engine.pid, 0)])
            sampler = Sampler(f"http://127.0.0.1:{port}", Neighbours(Path(folder), "chat"))
            sampler.sample()
            found = []
            for _ in range(rounds):
                began = time.thread_time_ns()
                sampler.sample()
                found.append((time.thread_time_ns() - began) / 1e6)
            return found
    finally:
        for child in (engine, *others):
            child.kill()
            child.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--neighbours", type=int, default=8)
    wanted = parser.parse_args()
    print(f"python {platform.python_version()}, {platform.machine()}, {wanted.rounds} samples each\n")
    print("| threads of the engine | neighbours | mean ms | p99 ms | share of a core |\n|---|---|---|---|---|")
    for threads, neighbours in ((6, 0), (6, wanted.neighbours), (64, wanted.neighbours), (400, wanted.neighbours)):
        times = measure(threads, neighbours, wanted.rounds)
        mean, high = statistics.mean(times), sorted(times)[int(0.99 * (len(times) - 1))]
        print(f"| {threads} | {neighbours} | {mean:.2f} | {high:.2f} | {mean / (1000 * WINDOW_S):.3%} |")


if __name__ == "__main__":
    main()
