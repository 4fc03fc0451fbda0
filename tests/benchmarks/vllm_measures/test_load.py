import asyncio
import json
from typing import Any

from benchmarks.vllm_measures.live_changes import differing, texts
from benchmarks.vllm_measures.traffic.clients import Served
from benchmarks.vllm_measures.traffic.load import Loop


class Echo:
    """A completions server that answers max_tokens chunks, each the prompt's first token; 13 is refused."""

    def __init__(self) -> None:
        self.seen: list[int] = []
        self.most = self._running = 0

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        asked = json.loads(await reader.readexactly(int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])))
        first, count = asked["prompt"][0], asked["max_tokens"]
        self.seen.append(first)
        self._running += 1
        self.most = max(self.most, self._running)
        await asyncio.sleep(0)
        if first == 13:
            writer.write(b"HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\n\r\nno server")
        else:
            told = [{"choices": [{"text": f"<{first}>"}]}] * count + [{"usage": {"completion_tokens": count}}]
            body = b"".join(b"data: " + json.dumps(one).encode() + b"\n\n" for one in told)
            writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + body)
        await writer.drain()
        self._running -= 1
        writer.close()


async def _served(firsts: list[int], clients: int, total: int | None) -> tuple[dict[str, Any], Echo]:
    echo = Echo()
    async with await asyncio.start_server(echo.answer, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        plan = {
            "host": "127.0.0.1", "port": port, "model": "m", "timeout_s": 20, "clients": clients, "think_s": 0.0,
            "seed": 1, "prompts": [{"prompt": [first], "max_tokens": 2} for first in firsts], "total": total,
        }  # fmt: skip
        return await Loop(plan).run(), echo


def test_prompts_are_sent_in_order_again_and_again_until_the_total() -> None:
    told, echo = asyncio.run(_served([1, 2, 3], 1, 7))

    assert echo.seen == [1, 2, 3, 1, 2, 3, 1]
    assert [one["index"] for one in told["requests"]] == [0, 1, 2, 0, 1, 2, 0]
    assert [one["text"] for one in told["requests"][:3]] == ["<1><1>", "<2><2>", "<3><3>"]
    assert all(one["error"] is None and one["tokens"] == 2 for one in told["requests"])
    assert told["wall_s"] == max(one["ended_s"] for one in told["requests"])


def test_clients_run_beside_each_other_and_no_more_than_asked_for() -> None:
    told, echo = asyncio.run(_served([1, 2], 3, 30))

    assert len(told["requests"]) == 30
    assert 1 < echo.most <= 3


def test_a_refused_request_is_told_and_the_client_goes_on() -> None:
    told, _ = asyncio.run(_served([13, 5], 1, 4))

    assert [one["error"] is None for one in told["requests"]] == [False, True, False, True]
    assert "503" in told["requests"][0]["error"]


def _story(index: int, text: str, error: str | None = None) -> dict[str, Any]:
    return {"index": index, "text": text, "error": error, "tokens": 1, "ttft_s": 0.1, "e2e_s": 0.2}


def test_texts_are_compared_prompt_by_prompt_without_those_that_failed() -> None:
    plain = Served([_story(0, "a"), _story(1, "b"), _story(2, "", "failed")], 1.0, 0.0, 0.0)
    changed = Served(
        [_story(0, "a"), _story(1, "x"), _story(1, "b"), _story(2, "c"), _story(0, "", "no")], 1.0, 0.0, 0.0
    )

    assert differing(texts(plain), changed) == (1, 3)
    assert changed.summary == "1 of 5 (no)"
