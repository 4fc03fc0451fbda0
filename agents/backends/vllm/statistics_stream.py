"""A vLLM server's statistics as one stream, from the best source there is: the plugin's raw values, or else /metrics.

Guarantee: at any moment one source is counted. The stream goes over from one to the other by itself, with one line in
the log; what the one has told is not told by the other again. At most what happens within the moment of going over is
lost. While /metrics is read, traces make the latencies of single requests exact (`measures/merge.py`); beside the
plugin they are passed over.
"""

import asyncio
import logging
import re
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from enum import StrEnum

from agents.backends.base import EngineUnreachable, Position
from agents.backends.vllm.measures.growth import growth
from agents.backends.vllm.measures.scrape_memory import ScrapeMemory
from agents.backends.vllm.measures.scrape_reading import Reading
from agents.backends.vllm.measures.scraper import Scraper, is_scraped
from agents.backends.vllm.measures.traces import TraceReceiver
from agents.backends.vllm.plugin_link import PluginLink
from agents.backends.vllm.server_api import ServerApi
from controlplane.contract.reports import finish_reasons
from controlplane.contract.reports.engine_event import EngineEvent, Hello

log = logging.getLogger(__name__)

TRACES_STOPPED_S = 60.0
"""Without a trace for so long, /metrics is counted at once again."""
NO_FOLDER = "no folder is shared with the plugin (vllm_dir)"
_HELLO_TIMEOUT_S = 5.0
_SHIFTED = re.compile(r"(.+)\+(\d+)")
Stream = AsyncGenerator[Hello | EngineEvent]


class Source(StrEnum):
    """Where statistics come from."""

    NONE = "none"  # Not known yet.
    PLUGIN = "plugin"
    METRICS = "metrics"


class NoPlugin(Exception):
    """No raw statistics can be had now; the message says why."""


class Statistics:
    """`revision` gives the revision in force for events that do not carry their own."""

    def __init__(
        self,
        api: ServerApi,
        link: PluginLink | None,
        memory: ScrapeMemory,
        traces: TraceReceiver | None,
        interval_s: float,
        revision: Callable[[], int],
    ) -> None:
        self._api, self._link, self._traces = api, link, traces
        self._scraper = Scraper(memory)
        self._interval_s = interval_s
        self._revision = revision
        self._source = Source.NONE
        self._open = False
        self._why_no_plugin = ""
        self._unreadable = ""
        self._raw_until: float | None = None
        self._looked_at: Reading | None = None

    @property
    def raw(self) -> bool:
        """Is the plugin's stream open?"""
        return self._open and self._source is Source.PLUGIN

    @property
    def degraded(self) -> str:
        """What cannot be seen, and the mend; empty with the plugin, and before the first look."""
        if self._unreadable and not self.raw:
            return f"no statistics: {self._unreadable}; and none from the plugin: {self._why_no_plugin}"
        if self._source is not Source.METRICS:
            return ""
        told = f"latencies come from /metrics every {self._interval_s:g} s, within its buckets"
        if self._tracing():
            told = "latencies come from traces, exact, but gaps between tokens from /metrics, within its buckets"
        if self._traces is not None and self._traces.error:
            told += f", {self._traces.error}"
        if self._traces is not None and self._traces.dropped:
            told += f", {self._traces.dropped} traces came faster than they could be counted"
        return f"{told}: {self._why_no_plugin}; install tailwright-vllm in vLLM's environment and set vllm_dir for raw"

    async def rejections(self) -> int:
        """Requests refused by vLLM's queue limits since the last call, with the plugin as the source; the scraper tells
        of them itself. 0 at the first look at a server. Raises EngineUnreachable.
        """
        if not self.raw:
            self._looked_at = None
            return 0
        before, now = self._looked_at, await self._api.reading()
        self._looked_at = now
        return 0 if before is None else growth(before, now).requests.get(finish_reasons.REFUSED, 0)

    async def events(self, position: Position | None) -> Stream:
        """See `Backend.events`."""
        while True:
            try:
                async with aclosing(self._raw(position)) as stream:
                    async for item in stream:
                        yield item
            except NoPlugin as error:
                self._why_no_plugin = str(error)
            async with aclosing(self._scraped(position)) as stream:
                async for item in stream:
                    yield item
            position = self._scraper.position

    async def _raw(self, position: Position | None) -> Stream:
        """The plugin's stream. Raises NoPlugin when there is none, EngineUnreachable when it breaks."""
        if self._link is None:
            raise NoPlugin(NO_FOLDER)
        after_scrape = position is not None and is_scraped(position)
        asked, shift = (None, 0) if position is None or after_scrape else _plugins(position)
        async with aclosing(self._link.events(asked)) as stream:
            try:
                async with asyncio.timeout(_HELLO_TIMEOUT_S):
                    hello = await anext(stream)
            except (EngineUnreachable, TimeoutError) as error:
                raise NoPlugin(self._link.why_no_statistics() or str(error) or "the plugin does not answer") from error
            if hello["kind"] != "hello":
                raise NoPlugin(f"{self._link.folder}: the plugin's stream does not begin as it should")
            try:
                self._now_from(Source.PLUGIN, "vLLM's statistics come raw from the plugin")
                if after_scrape and position is not None:
                    async with aclosing(self._unseen(stream, hello, self._scraper.counted_until(position))) as unseen:
                        async for item in unseen:
                            yield item
                if asked is None or hello["boot"] != asked.boot:
                    shift = 0
                yield _renamed(hello, shift)
                async for item in stream:
                    yield self._noted(item, shift)
            finally:
                self._open = False

    async def _unseen(self, stream: AsyncIterator[Hello | EngineEvent], hello: Hello, read_at: float) -> Stream:
        """What happened after the last reading of /metrics, numbered from 1: the ring holds what was counted there."""
        shift: int | None = None
        async for item in stream:
            if item["kind"] == "hello":
                continue
            if shift is None:
                if item["time"] <= read_at:
                    continue
                shift = item["seq"] - 1
                yield _renamed({**hello, "oldest": item["seq"]}, shift)
            yield self._noted(item, shift)

    async def _scraped(self, position: Position | None) -> Stream:
        """/metrics and traces, until the plugin speaks. Raises EngineUnreachable when /metrics cannot be read."""
        now = await self._reading()
        self._now_from(Source.METRICS, f"vLLM's statistics come from /metrics: {self._why_no_plugin}")
        yield await self._versioned(self._scraper.begin(position, now, self._raw_until))
        try:
            while True:
                for item in self._scraper.read(now, self._revision(), tracing=self._tracing()):
                    yield await self._versioned(item) if item["kind"] == "hello" else item
                due = asyncio.get_running_loop().time() + self._interval_s
                while await self._traces_before(due):
                    for event in self._exact():
                        yield event
                last = self._link is not None and await self._link.speaks()
                now = await self._reading()
                if last:
                    for item in self._scraper.read(now, self._revision(), tracing=False):
                        yield item
                    return
        finally:
            self._open = False

    async def _versioned(self, hello: Hello) -> Hello:
        version = await self._api.version()
        return hello if version is None else {**hello, "version": version}

    async def _reading(self) -> Reading:
        try:
            now = await self._api.reading()
        except EngineUnreachable as error:
            self._unreadable = error.message
            raise
        self._unreadable = ""
        return now

    def _exact(self) -> list[EngineEvent]:
        assert self._traces is not None
        return self._scraper.traced(self._traces.take(), self._revision())

    async def _traces_before(self, due: float) -> bool:
        """Wait for traces until `due` (of the loop's clock). False: it is time."""
        left_s = due - asyncio.get_running_loop().time()
        if self._traces is None:
            await asyncio.sleep(max(left_s, 0.0))
            return False
        try:
            async with asyncio.timeout(max(left_s, 0.0)):
                await self._traces.arrived.wait()
        except TimeoutError:
            return False
        return True

    def _tracing(self) -> bool:
        return self._traces is not None and self._traces.heard_within(TRACES_STOPPED_S)

    def _noted(self, item: Hello | EngineEvent, shift: int) -> Hello | EngineEvent:
        if item["kind"] != "hello":
            self._raw_until = max(item["time"], self._raw_until or 0.0)
            if shift:
                item["seq"] -= shift
        return item

    def _now_from(self, source: Source, line: str) -> None:
        if self._source is not source:
            log.log(logging.INFO if source is Source.PLUGIN else logging.WARNING, "%s", line)
        self._source, self._open = source, True
        if self._traces is not None:
            self._traces.count(source is Source.METRICS)


def _plugins(position: Position) -> tuple[Position, int]:
    """The plugin's own position, and by how much its numbers were lowered."""
    found = _SHIFTED.fullmatch(position.boot)
    if found is None:
        return position, 0
    shift = int(found[2])
    return Position(found[1], position.seq + shift), shift


def _renamed(hello: Hello, shift: int) -> Hello:
    """The hello of a stream whose numbers are lowered by `shift`."""
    if not shift:
        return hello
    return {**hello, "boot": f"{hello['boot']}+{shift}", "oldest": max(hello["oldest"] - shift, 1)}
