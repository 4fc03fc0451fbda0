import asyncio
import json
from typing import Any

from benchmarks.engine_rivals.load_generator import run


def _event(value: object) -> bytes:
    return b"data: " + (value if isinstance(value, bytes) else json.dumps(value).encode()) + b"\n\n"


class Streamer:
    """A server that streams one chunk a token, cut at odd places, and refuses prompts that begin with 13."""

    def __init__(self) -> None:
        self.seen: list[dict[str, Any]] = []

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
        asked = json.loads(await reader.readexactly(length))
        self.seen.append(asked)
        if asked["prompt"][0] == 13:
            writer.write(b"HTTP/1.1 429 Too Many Requests\r\nContent-Length: 4\r\nConnection: close\r\n\r\nfull")
        else:
            writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
            count = asked["max_tokens"] - (1 if asked["prompt"][0] == 7 else 0)
            body = b"".join(_event({"choices": [{"text": "x"}]}) for _ in range(count))
            body += _event({"choices": [{"text": "", "finish_reason": "length"}]})
            body += _event({"choices": [], "usage": {"completion_tokens": count}}) + _event(b"[DONE]")
            for start in range(0, len(body), 50):
                piece = body[start : start + 50]
                writer.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
                await writer.drain()
            writer.write(b"0\r\n\r\n")
        await writer.drain()
        writer.close()


async def _served(requests: list[dict[str, Any]]) -> tuple[dict[str, Any], Streamer]:
    streamer = Streamer()
    async with await asyncio.start_server(streamer.answer, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        plan = {"host": "127.0.0.1", "port": port, "model": "m", "timeout_s": 20, "requests": requests}
        return await run(plan), streamer


def test_tokens_gaps_and_failures_are_counted() -> None:
    told, streamer = asyncio.run(
        _served(
            [
                {"at_s": 0.0, "prompt": [1, 2], "max_tokens": 5},
                {"at_s": 0.02, "prompt": [13], "max_tokens": 5},
                {"at_s": 0.04, "prompt": [7], "max_tokens": 5},
            ]
        )
    )
    fine, refused, short = told["requests"]
    assert fine["error"] is None
    assert len(fine["gaps_s"]) == 4
    assert 0 < fine["ttft_s"] <= fine["e2e_s"]
    assert refused["ttft_s"] is None
    assert refused["error"] == "ValueError: status 429: full"
    assert short["error"] == "4 tokens instead of 5"
    assert all(asked["ignore_eos"] and asked["stream"] and asked["temperature"] == 0 for asked in streamer.seen)


def test_nobody_listens() -> None:
    plan = {"host": "127.0.0.1", "port": 1, "model": "m", "timeout_s": 5}
    told = asyncio.run(run({**plan, "requests": [{"at_s": 0.0, "prompt": [1], "max_tokens": 2}]}))
    assert "Connect" in told["requests"][0]["error"]
