"""What the plugin told of some requests, and what vLLM's own log says of the same ones."""

import asyncio
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

from agents.backends.vllm.plugin_link import PluginLink
from tests.processes import wait_for
from tests.vllm.real_vllm import Answer, VllmServer, read_raw_log

READ_LIMIT_S = 60.0


@dataclass
class Values:
    """Seconds, sorted. `finished` by request id: the event of the plugin, or the line of vLLM's own log."""

    ttft: list[float] = field(default_factory=list)
    itl: list[float] = field(default_factory=list)
    finished: dict[str, dict[str, Any]] = field(default_factory=dict)

    def sorted(self) -> "Values":
        return Values(sorted(self.ttft), sorted(self.itl), self.finished)


def engine_ids(answers: Sequence[Answer]) -> set[str]:
    """The ids by which vLLM calls these requests inside: that of the answer, and the number of the prompt in it."""
    return {f"{answer.request_id}-0" for answer in answers}


def told_by_plugin(server: VllmServer, ids: Collection[str], began: float) -> Values:
    """What the plugin's stream holds since `began` (Unix seconds), once all of `ids` have finished in it."""
    return asyncio.run(asyncio.wait_for(_read(server, set(ids), began), READ_LIMIT_S)).sorted()


async def _read(server: VllmServer, ids: set[str], began: float) -> Values:
    found = Values()
    stream = PluginLink(server.folder).events(None)
    last = None
    async for event in stream:
        kind = event["kind"]
        # The iteration that finishes the last request is told to its end: its values come before what it finished.
        if not ids - found.finished.keys() and (kind != "finished" or event["time"] != last):
            break
        if kind == "hello" or event["time"] < began:
            continue
        if kind == "first_token":
            found.ttft.append(event["ttft"])
        elif kind == "gaps":
            found.itl += event["gaps"]
        elif kind == "finished":
            found.finished[event["request_id"]] = dict(event)
            last = event["time"]
            if not ids - found.finished.keys():
                break
    await stream.aclose()
    return found


def told_by_vllm(server: VllmServer, ids: Collection[str], began: float) -> Values:
    """What vLLM's own values since `began` are, once all of `ids` have finished in its log."""
    found = Values()

    def whole() -> bool:
        found.finished.clear()
        found.ttft, found.itl = [], []
        for line in read_raw_log(server.raw_log):
            if line["time"] >= began:
                found.ttft += line["ttft"]
                found.itl += line["itl"]
                found.finished.update({one["request_id"]: one for one in line["finished"]})
        return not set(ids) - found.finished.keys()

    wait_for("every request is in vLLM's own log", whole, READ_LIMIT_S)
    return found.sorted()
