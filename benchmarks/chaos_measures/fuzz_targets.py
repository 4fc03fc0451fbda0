"""The processes that are fuzzed, real ones on loopback: started, watched (memory, end), started again when they end."""

import asyncio
import contextlib
import re
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import httpx

from benchmarks.chaos_measures.raw_exchange import Address
from benchmarks.engine_rivals.servers import HOST, free_port
from benchmarks.vllm_measures.processes import Child, Nursery
from controlplane.terminal.child import one_thread_each

START_LIMIT_S = 120.0
MAX_MODEL_LEN = 256
_ADMIN_TOKEN = "admin-token"
_ANSWER = b'{"object": "x", "choices": [{"text": "y", "index": 0, "finish_reason": "stop"}]}'
_STREAM = b"data: %b\n\n" % _ANSWER


@dataclass
class Target:
    """One process; `memory` holds (requests sent to it so far, resident bytes) at each look, since its last start,
    `heaps` (requests, bytes that the C library has in use, bytes that it keeps free), of the service alone.

    starved_s: how long it has been ready to run and had no processor, up to the last look.
    """

    name: str
    start: Callable[[], Child]
    child: Child
    health: str
    sent: int = 0
    ends: list[str] = field(default_factory=list)
    memory: list[tuple[int, int]] = field(default_factory=list)
    heaps: list[tuple[int, int, int]] = field(default_factory=list)
    up: asyncio.Event = field(default_factory=asyncio.Event)
    starved_s: float = 0.0
    _delays_s: dict[str, float] = field(default_factory=dict)

    def look(self) -> None:
        """Note its memory, and how long it had no processor."""
        delays_s = run_delays_s(self.child.pid)
        # Of threads that waited at the same time the longest counts.
        self.starved_s += max((now - self._delays_s.get(task, now) for task, now in delays_s.items()), default=0.0)
        self._delays_s = delays_s
        with contextlib.suppress(OSError):
            status = Path(f"/proc/{self.child.pid}/status").read_text(encoding="utf-8")
            if found := re.search(r"^VmRSS:\s+(\d+) kB$", status, re.MULTILINE):
                self.memory.append((self.sent, int(found[1]) * 1024))

    async def revive(self) -> None:
        """Start it again, and note how the last one ended."""
        self.up.clear()
        self.ends.append(self.child.log_end()[-600:])
        self.memory.clear()
        self.heaps.clear()
        self.child = await asyncio.to_thread(self.start)
        await asyncio.to_thread(self.child.wait_healthy, self.health, START_LIMIT_S)
        self.up.set()


@dataclass(frozen=True)
class Targets:
    """All of them, with what one needs to be let in. cookie: of a browser's session; nodes: their tokens by name."""

    service: Target
    engine: Target
    proxy: Target
    addresses: dict[str, Address]
    admin_token: str
    cookie: str
    nodes: dict[str, str]
    service_document: dict[str, object]
    engine_document: dict[str, object]

    @property
    def all(self) -> Sequence[Target]:
        return (self.service, self.engine, self.proxy)


def start(nursery: Nursery, upstream_port: int, pools: Mapping[str, str]) -> Targets:
    """pools: of the nodes to enrol. Blocks; begin the upstream before. Raises `WorkerFailed` with the end of a log."""
    service_port, engine_port, proxy_port = free_port(), free_port(), free_port()
    data = nursery.folder / "data"
    control, proxy_control = nursery.folder / "engine.sock", nursery.folder / "proxy.sock"
    main = [sys.executable, "-m", "controlplane.command.main"]
    commands = {
        "service": [*main, "up", "--data-dir", str(data), "--port", str(service_port), "--no-tuner"],
        "engine": [
            *(*main, "engine", "--port", str(engine_port), "--control-socket", str(control)),
            *("--max-model-len", str(MAX_MODEL_LEN), "--quantizations", "none", "--kv-cache-memory-bytes", "64M"),
        ],
        "proxy": [
            *(sys.executable, "-m", "agents.backends.vllm.proxy", "--host", HOST, "--port", str(proxy_port)),
            *("--control", str(proxy_control), "--target", f"http://{HOST}:{upstream_port}"),
        ],
    }
    commands["service"] += ["--log-level", "warning"]
    health = {
        "service": f"http://{HOST}:{service_port}/readyz",
        "engine": f"http://{HOST}:{engine_port}/health",
        "proxy": f"http://{HOST}:{proxy_port}/health",
    }

    def started(name: str) -> Target:
        def begin() -> Child:
            return nursery.start(name, commands[name], one_thread_each())

        return Target(name, begin, begin(), health[name])

    found = {name: started(name) for name in commands}
    for target in found.values():
        target.child.wait_healthy(target.health, START_LIMIT_S)
        target.up.set()
    token = (data / _ADMIN_TOKEN).read_text(encoding="utf-8").strip()
    with httpx.Client(base_url=f"http://{HOST}:{service_port}", timeout=30.0) as http:
        signed_in = http.post("/login", data={"token": token})
        cookie = "; ".join(f"{name}={value}" for name, value in signed_in.cookies.items())
        http.get("/").raise_for_status()  # The first page loads what all pages need.
        http.headers["Authorization"] = f"Bearer {token}"
        nodes = {}
        for name, pool in pools.items():
            answer = http.post("/api/v1/enrol", json={"node": name, "pool": pool, "backend": "embedded"})
            answer.raise_for_status()
            nodes[name] = answer.json()["token"]
        service_document = http.get("/openapi.json").raise_for_status().json()
    engine_document = httpx.get(f"http://{HOST}:{engine_port}/openapi.json").raise_for_status().json()
    addresses = {
        "service": Address(service_port),
        "engine": Address(engine_port),
        "engine control": Address(socket=control),
        "proxy": Address(proxy_port),
    }
    return Targets(
        found["service"],
        found["engine"],
        found["proxy"],
        addresses,
        token,
        cookie,
        nodes,
        service_document,
        engine_document,
    )


def run_delays_s(pid: int) -> dict[str, float]:
    """By thread, the seconds it has been ready to run and had no processor (/proc/PID/task/TID/schedstat)."""
    found = {}
    for task in Path(f"/proc/{pid}/task").glob("*/schedstat"):
        with contextlib.suppress(OSError):
            found[task.parent.name] = int(task.read_text(encoding="utf-8").split()[1]) / 1e9
    return found


async def watch(targets: Targets, every_s: float = 0.5, heaps_each: int = 20) -> None:
    """Until cancelled: note each process's memory, and start again those that ended; `heaps_each` so many looks the
    service's heaps, too."""
    for number in count():
        if number % heaps_each == 0:
            await asyncio.to_thread(look_at_heaps, targets.service)
        for target in targets.all:
            if not target.child.is_alive:
                await target.revive()
            target.look()
        await asyncio.sleep(every_s)


def look_at_heaps(service: Target) -> None:
    """Ask the service's /metrics; nothing is noted where it does not answer."""
    sent = service.sent
    with contextlib.suppress(httpx.HTTPError):
        text = httpx.get(service.health.replace("/readyz", "/metrics"), timeout=10.0).text
        told = dict(re.findall(r'^tailwright_heap_bytes\{state="(\w+)"\} (\S+)$', text, re.MULTILINE))
        if told:
            service.heaps.append((sent, int(float(told["used"])), int(float(told["kept"]))))


async def upstream() -> tuple[asyncio.Server, int]:
    """A server for the proxy: it answers whatever HTTP/1.1 request with 200, some with a stream. Its port."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).lower()
                await _body(reader, head)
                bodiless = head.startswith(b"head ")
                if not bodiless and (b"event-stream" in head or time.monotonic_ns() % 8 == 0):
                    writer.write(
                        b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
                    )
                    writer.write(b"%x\r\n%b\r\n0\r\n\r\n" % (len(_STREAM), _STREAM))
                    continue
                body = b"" if bodiless else _ANSWER
                writer.write(
                    b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(_ANSWER)
                )
                writer.write(body)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # The proxy has closed its connection.
        finally:
            writer.close()

    server = await asyncio.start_server(serve, HOST, 0, limit=2**20)
    return server, int(server.sockets[0].getsockname()[1])


async def _body(reader: asyncio.StreamReader, head: bytes) -> None:
    if b"transfer-encoding: chunked" in head:
        while size := int((await reader.readuntil(b"\r\n")).split(b";")[0], 16):
            await reader.readexactly(size + 2)
        await reader.readuntil(b"\r\n")
        return
    found = re.search(rb"\r\ncontent-length: *(\d+)\r\n", head)
    await reader.readexactly(int(found[1]) if found else 0)
