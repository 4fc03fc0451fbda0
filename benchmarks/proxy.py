"""What the local vLLM proxy adds to a request and to each streamed chunk, against the same server asked directly.

    python benchmarks/proxy.py [--rounds 5] [--seed 1] [--quick]

Three processes on one machine: a simple server, the proxy, and this one, the client. The server writes the time of
CLOCK_MONOTONIC, which all processes share, into each chunk just before it sends it; the client looks at the clock when
it has it. A chunk is one server-sent event of about 250 bytes, as vLLM sends for a token. Direct and proxied parts
interleave within a round, in an order drawn anew; "added" is the median over the rounds of the difference of that
round's two quantiles. The proxy's CPU time is the kernel's (/proc/PID/schedstat).
"""

import argparse
import asyncio
import json
import platform
import random
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import aiohttp

from agents.backends.vllm.proxy.launch import ensure_proxy
from benchmarks.engine_measures.stats import quantile

HOST = "127.0.0.1"
ASK_BYTES = 1000
ANSWER_BYTES = 400
PADDING = b"x" * 220
EVENT = re.compile(rb"data: (\d+) ")


async def serve() -> None:
    """The server: `POST /plain` answers at once, `POST /stream` with `{"chunks", "pause_s"}` as told."""

    async def connection(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).lower()
                body = await reader.readexactly(int(head.partition(b"content-length: ")[2].split(b"\r\n")[0]))
                if head.startswith(b"post /plain"):
                    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % ANSWER_BYTES + b"y" * ANSWER_BYTES)
                    continue
                wanted = json.loads(body)
                writer.write(
                    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
                )
                due = time.monotonic()
                for _ in range(wanted["chunks"]):
                    due += wanted["pause_s"]
                    await asyncio.sleep(max(0.0, due - time.monotonic()))
                    event = b"data: %d %b\n\n" % (time.monotonic_ns(), PADDING)
                    writer.write(b"%x\r\n%b\r\n" % (len(event), event))
                writer.write(b"0\r\n\r\n")
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    server = await asyncio.start_server(connection, HOST, 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


def request(path: str, body: bytes) -> bytes:
    return b"POST %b HTTP/1.1\r\nHost: bench\r\nContent-Length: %d\r\n\r\n%b" % (path.encode(), len(body), body)


async def plain(port: int, count: int) -> list[float]:
    """Seconds of each of `count` requests, one after another on one connection."""
    reader, writer = await asyncio.open_connection(HOST, port)
    sent, found = request("/plain", b"z" * ASK_BYTES), []
    for _ in range(count):
        began = time.perf_counter()
        writer.write(sent)
        await reader.readuntil(b"\r\n\r\n")
        await reader.readexactly(ANSWER_BYTES)
        found.append(time.perf_counter() - began)
    writer.close()
    return found


async def stream(port: int, chunks: int, pause_s: float) -> list[float]:
    """Seconds from the server's hand to the client's of each chunk of one stream."""
    reader, writer = await asyncio.open_connection(HOST, port)
    writer.write(request("/stream", json.dumps({"chunks": chunks, "pause_s": pause_s}).encode()))
    found: list[float] = []
    rest = b""
    while not rest.endswith(b"0\r\n\r\n"):
        piece = await reader.read(2**16)
        now = time.monotonic_ns()
        if not piece:
            raise ConnectionError("the stream broke off")
        whole, mark, rest = (rest + piece).rpartition(b"\n\n")
        found += [(now - int(told)) / 1e9 for told in EVENT.findall(whole + mark)]
    writer.close()
    if len(found) != chunks:
        raise ValueError(f"{len(found)} chunks came, {chunks} were sent")
    return found


async def streams(port: int, clients: int, chunks: int, pause_s: float) -> list[float]:
    found = await asyncio.gather(*(stream(port, chunks, pause_s) for _ in range(clients)))
    return [value for one in found for value in one]


def cpu_s(pid: int) -> float:
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9


def resident_mib(pid: int) -> int:
    return int(Path(f"/proc/{pid}/status").read_text().partition("VmRSS:")[2].split()[0]) // 1024


@dataclass
class Part:
    """One measure, and by round its values in seconds and the proxy's CPU seconds for 1,000 of them."""

    name: str
    measure: Callable[[int], Awaitable[list[float]]]
    direct: list[list[float]] = field(default_factory=list)
    proxied: list[list[float]] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)

    def row(self) -> str:
        cells = [self.name, str(sum(map(len, self.proxied)))]
        for share in (0.5, 0.99):
            pairs = [(quantile(a, share), quantile(b, share)) for a, b in zip(self.direct, self.proxied, strict=True)]
            for value in (median(a for a, _ in pairs), median(b for _, b in pairs), median(b - a for a, b in pairs)):
                cells.append(f"{1e3 * value:.3f}")
        return f"| {' | '.join([*cells, f'{median(self.cpu):.3f}'])} |"


async def measure(rounds: int, seed: int, quick: bool, server_port: int, folder: Path) -> None:
    proxy = await ensure_proxy(HOST, 0, folder / "proxy.sock", folder / "proxy.log", end_with_parent=True)
    state = await proxy.switch(f"http://{HOST}:{server_port}")
    chunks = 20 if quick else 200
    parts = [
        Part("request", lambda port: plain(port, 30 if quick else 500)),
        Part("chunk, 1 stream at 200/s", lambda port: streams(port, 1, chunks, 0.005)),
        Part("chunk, 32 streams at 50/s", lambda port: streams(port, 32, chunks // 2, 0.02)),
        Part("chunk, 8 streams unpaced", lambda port: streams(port, 8, 5 * chunks, 0.0)),
    ]
    luck = random.Random(seed)
    for number in range(rounds + 1):
        for part in parts:
            for proxied in luck.sample((False, True), 2):
                before = cpu_s(state.pid)
                values = await part.measure(state.port if proxied else server_port)
                if number == 0:
                    continue  # The first round warms up.
                if proxied:
                    part.cpu.append((cpu_s(state.pid) - before) / len(values) * 1000)
                (part.proxied if proxied else part.direct).append(values)
    after = await proxy.state()
    print("\n| what | n | direct p50 ms | proxied | added | direct p99 ms | proxied | added | proxy CPU s per 1,000 |")
    print("|---|---|---|---|---|---|---|---|---|")
    for part in parts:
        print(part.row())
    print(
        f"\n{after.requests} requests, failed {dict(after.failed)}; the proxy's memory: {resident_mib(state.pid)} MiB"
    )
    await proxy.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seed", type=int, default=1, help="of the order of direct and proxied")
    parser.add_argument("--quick", action="store_true", help="tiny sizes, to see that it works")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    wanted = parser.parse_args()
    if wanted.serve:
        asyncio.run(serve())
        return
    began = time.monotonic()
    print(f"python {platform.python_version()}, aiohttp {aiohttp.__version__}, {platform.machine()}")
    print(f"seed {wanted.seed}, {wanted.rounds} rounds, interleaved")
    server = subprocess.Popen([sys.executable, __file__, "--serve"], stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        port = int(server.stdout.readline())
        with tempfile.TemporaryDirectory(prefix="tailwright-proxy-") as folder:
            asyncio.run(measure(wanted.rounds, wanted.seed, wanted.quick, port, Path(folder)))
    finally:
        server.kill()
        server.wait()
    print(f"{time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
