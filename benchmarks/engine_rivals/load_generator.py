"""Sends completions by the clock and times what streams back. Standard library alone: it shares the cores with what it
measures, so it must cost little; a general HTTP client costs several times as much per chunk.

    python -m benchmarks.engine_rivals.load_generator < PLAN > RESULT

PLAN: {"host", "port", "model", "timeout_s", "requests": [{"at_s", "prompt": [ids], "max_tokens"}]}. The loop is open:
a request is sent at its time whatever became of the others. RESULT: {"requests": [{"ttft_s", "e2e_s", "gaps_s",
"error"}], "late_s": the most that a request was sent after its time, "cpu_s"}; ttft and e2e count from the planned
time. A gap is the time between two chunks that carry text.
"""

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass
class Story:
    """What became of one request; seconds since the plan's start."""

    planned: float
    sent: float = 0.0
    marks: list[float] = field(default_factory=list)
    pieces: list[str] = field(default_factory=list)
    """The text of each mark."""
    completion_tokens: int | None = None
    error: str | None = None


def sent_beside(plan: Mapping[str, Any]) -> dict[str, Any]:
    """The RESULT of a process of its own. Raises CalledProcessError where it fails."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.engine_rivals.load_generator"],
        cwd=Path(__file__).resolve().parents[2],
        input=json.dumps(plan).encode(),
        stdout=subprocess.PIPE,
        check=True,
    )
    told: dict[str, Any] = json.loads(done.stdout)
    return told


async def send(plan: dict[str, Any], asked: dict[str, Any], began: float) -> Story:
    story = Story(float(asked["at_s"]))
    await asyncio.sleep(max(0.0, began + story.planned - time.perf_counter()))
    story.sent = time.perf_counter() - began
    try:
        async with asyncio.timeout(plan["timeout_s"]):
            await _stream(plan, asked, story, began)
    except (OSError, TimeoutError, ValueError, asyncio.IncompleteReadError) as error:
        story.error = f"{type(error).__name__}: {error}"
    if story.error is None and story.completion_tokens != asked["max_tokens"]:
        story.error = f"{story.completion_tokens} tokens instead of {asked['max_tokens']}"
    return story


async def _stream(plan: dict[str, Any], asked: dict[str, Any], story: Story, began: float) -> None:
    body = json.dumps(
        {
            "model": plan["model"],
            "prompt": asked["prompt"],
            "max_tokens": asked["max_tokens"],
            "temperature": 0,
            "ignore_eos": True,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
    ).encode()
    reader, writer = await asyncio.open_connection(plan["host"], plan["port"])
    try:
        writer.write(
            f"POST /v1/completions HTTP/1.1\r\nHost: {plan['host']}\r\nContent-Type: application/json\r\n"
            f"Connection: close\r\nContent-Length: {len(body)}\r\n\r\n".encode()
            + body
        )
        head = await reader.readuntil(b"\r\n\r\n")
        status = int(head.split(b" ", 2)[1])
        if status != 200:
            raise ValueError(f"status {status}: {(await reader.read(300)).decode(errors='replace')}")
        chunked = b"transfer-encoding: chunked" in head.lower()
        waiting = b""
        while piece := await (_chunk(reader) if chunked else reader.read(65536)):
            now = time.perf_counter() - began
            *events, waiting = (waiting + piece).split(b"\n\n")
            for event in events:
                _take(event, now, story)
    finally:
        writer.close()


async def _chunk(reader: asyncio.StreamReader) -> bytes:
    """One chunk of a chunked body (RFC 9112, 7.1); empty at its end."""
    size = int((await reader.readuntil(b"\r\n")).split(b";")[0], 16)
    return (await reader.readexactly(size + 2))[:size]


def _take(event: bytes, now: float, story: Story) -> None:
    if not event.startswith(b"data:") or event[5:].strip() == b"[DONE]":
        return
    told = json.loads(event[5:])
    if "error" in told:
        raise ValueError(str(told["error"])[:300])
    if told.get("choices") and (text := told["choices"][0].get("text")):
        story.marks.append(now)
        story.pieces.append(text)
    if told.get("usage"):
        story.completion_tokens = told["usage"]["completion_tokens"]


async def run(plan: dict[str, Any]) -> dict[str, Any]:
    began = time.perf_counter() + 0.05
    stories = await asyncio.gather(*(send(plan, asked, began) for asked in plan["requests"]))
    return {
        "requests": [
            {
                "ttft_s": story.marks[0] - story.planned if story.marks else None,
                "e2e_s": story.marks[-1] - story.planned if story.marks else None,
                "gaps_s": [after - before for before, after in zip(story.marks, story.marks[1:], strict=False)],
                "error": story.error,
            }
            for story in stories
        ],
        "late_s": max((story.sent - story.planned for story in stories), default=0.0),
        "cpu_s": time.process_time(),
    }


if __name__ == "__main__":
    json.dump(asyncio.run(run(json.load(sys.stdin))), sys.stdout)
