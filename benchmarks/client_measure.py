"""What measuring at the client costs: seconds of CPU per token, with the clock at the stream and without.

    .venv/bin/python benchmarks/client_measure.py

Two places: `measure` round a plain iterator, and the transport under httpx and under the openai client, which read
server-sent events of a server in another process that sends as fast as it can. With and without interleave within a
round, in an order drawn anew; the figure is the median over the rounds of the difference of that round's two CPU times.
"""

import argparse
import json
import platform
import random
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import httpx
import openai

from agents.client_measure import Recorder, measure, wrap_httpx, wrap_openai

HOST = "127.0.0.1"
DONE = b"data: [DONE]\n\n"
BATCH = 50
"""Streams of one timing: the clock of CPU time ticks coarsely."""


def event(number: int) -> bytes:
    chunk = {
        "id": "chatcmpl-6b1f1f0e5d3c4a2b9f8e7d6c5b4a3f2e",
        "object": "chat.completion.chunk",
        "created": 1_760_000_000,
        "model": "bench",
        "choices": [{"index": 0, "delta": {"content": f" word{number}"}, "logprobs": None, "finish_reason": None}],
    }
    return b"data: " + json.dumps(chunk).encode() + b"\n\n"


def serve(tokens: int) -> None:
    """Answers each request with so many events, each an HTTP chunk and a segment of its own."""
    server = socket.create_server((HOST, 0))
    print(server.getsockname()[1], flush=True)
    chunks = [b"%x\r\n%b\r\n" % (len(one), one) for one in (*map(event, range(tokens)), DONE)]
    while True:
        connection, _ = server.accept()
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        threading.Thread(target=answer, args=(connection, [*chunks, b"0\r\n\r\n"]), daemon=True).start()


def answer(connection: socket.socket, chunks: list[bytes]) -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    with connection, connection.makefile("rb") as incoming:
        length = 0
        while line := incoming.readline().lower():
            if line.startswith(b"content-length:"):
                length = int(line.partition(b":")[2])
            elif line == b"\r\n":
                incoming.read(length)
                for piece in (head, *chunks):
                    connection.sendall(piece)


def over_iterator(tokens: int, recorder: Recorder | None) -> Callable[[], int]:
    items = list(range(tokens))

    def run() -> int:
        source = iter(items)
        return sum(1 for _ in (source if recorder is None else measure(source, recorder.record)))

    return run


def over_httpx(tokens: int, url: str, recorder: Recorder | None) -> Callable[[], int]:
    client, length = httpx.Client(base_url=url), sum(len(event(number)) for number in range(tokens)) + len(DONE)
    if recorder is not None:
        wrap_httpx(client, recorder)

    def run() -> int:
        with client.stream("POST", "/v1/chat/completions", json={"model": "bench"}) as response:
            return tokens if sum(map(len, response.iter_raw())) == length else -1

    return run


def over_openai(url: str, recorder: Recorder | None) -> Callable[[], int]:
    client = openai.OpenAI(base_url=url + "/v1", api_key="none")
    if recorder is not None:
        wrap_openai(client, recorder)

    def run() -> int:
        return sum(1 for _ in client.chat.completions.create(model="bench", messages=[], stream=True))

    return run


def cost(run: Callable[[], int], tokens: int, batch: int) -> float:
    """CPU seconds of this thread per token."""
    began = time.thread_time()
    for _ in range(batch):
        if (found := run()) != tokens:
            raise ValueError(f"{found} tokens came, {tokens} were sent")
    return (time.thread_time() - began) / (batch * tokens)


def measure_costs(rounds: int, tokens: int, batch: int, seed: int, url: str) -> None:
    recorder = Recorder("bench")
    kinds: dict[str, tuple[Callable[[], int], Callable[[], int]]] = {
        "iterator": (over_iterator(tokens, None), over_iterator(tokens, recorder)),
        "httpx": (over_httpx(tokens, url, None), over_httpx(tokens, url, recorder)),
        "openai": (over_openai(url, None), over_openai(url, recorder)),
    }
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in kinds}
    luck = random.Random(seed)
    for number in range(rounds + 1):
        for name, pair in kinds.items():
            costs = {place: cost(pair[place], tokens, batch) for place in luck.sample((0, 1), 2)}
            if number:  # The first round warms up.
                found[name].append((costs[0], costs[1]))
    print("\n| stream | without, us a token | with | added | lowest, highest round |")
    print("|---|---|---|---|---|")
    for name, pairs in found.items():
        added = [1e6 * (measured - plain) for plain, measured in pairs]
        plain, measured = (1e6 * median(values) for values in zip(*pairs, strict=True))
        print(f"| {name} | {plain:.2f} | {measured:.2f} | {median(added):.2f} | {min(added):.2f}, {max(added):.2f} |")
    seen = recorder.snapshot()
    print(f"\n{seen.requests} requests of {tokens} tokens were measured: {dict(seen.ended)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--tokens", type=int, default=400)
    parser.add_argument("--seed", type=int, default=1, help="of the order of with and without")
    parser.add_argument("--quick", action="store_true", help="tiny sizes, to see that it works")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    wanted = parser.parse_args()
    if wanted.serve:
        serve(wanted.tokens)
        return
    print(f"python {platform.python_version()}, httpx {httpx.__version__}, openai {openai.__version__}")
    command = [sys.executable, __file__, "--serve", "--tokens", str(wanted.tokens)]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        url = f"http://{HOST}:{int(server.stdout.readline())}"
        rounds, batch = (2, 2) if wanted.quick else (wanted.rounds, BATCH)
        measure_costs(rounds, wanted.tokens, batch, wanted.seed, url)
    finally:
        server.kill()
        server.wait()


if __name__ == "__main__":
    main()
