"""The simulated fleet as Prometheus would scrape it: `python -m benchmarks.telemetry_measures.exporter PORT ...`.

One process answers GET /n/NODE/metrics for all nodes. A node's page is one of a few variants; its counters have grown
by a report's worth at each scrape. Pages are made beforehand and sent uncompressed: neither the making nor the
unpacking is charged to Prometheus. GET /count answers the number of scrapes so far.
"""

import argparse
import asyncio
import gc
import os

import numpy as np

from benchmarks.telemetry_measures import classic_buckets
from benchmarks.telemetry_measures.fleet import report_shape
from benchmarks.telemetry_measures.fleet.report_shape import GAUGES, HISTOGRAMS, LABELS, SERIES, labels_of, metric_of

_CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def pages(seed: int, variants: int, scrapes: int) -> list[list[bytes]]:
    """pages[variant][scrape]."""
    random = np.random.default_rng([seed, 21])
    shape = report_shape.Shape()
    made = []
    for _ in range(variants):
        drawn = shape.draw(random, scrapes)
        cumulative = classic_buckets.of_axis(drawn.low, drawn.counts).cumsum(axis=0)
        totals = (drawn.counts.sum(axis=2) * random.uniform(0.01, 1.0, SERIES)).cumsum(axis=0)
        gauges = random.random((scrapes, len(GAUGES)))
        made.append([_page(cumulative[one], totals[one], gauges[one]) for one in range(scrapes)])
    return made


def _page(cumulative: np.ndarray, totals: np.ndarray, gauges: np.ndarray) -> bytes:
    lines: list[str] = []
    for series in range(SERIES):
        name = classic_buckets.prometheus_name(HISTOGRAMS[metric_of(series)].name)
        if labels_of(series) == 0:
            lines.append(f"# TYPE {name} histogram\n")
        labels = classic_buckets.labels_text(LABELS[labels_of(series)])
        lines.extend(classic_buckets.histogram_lines(name, labels, cumulative[series].tolist(), float(totals[series])))
    labels = classic_buckets.labels_text(LABELS[-1])
    for name, value in zip(GAUGES, gauges.tolist(), strict=True):
        flat = name.replace(".", "_")
        lines.append(f"# TYPE {flat} gauge\n{flat}{{{labels}}} {value!r}\n")
    return "".join(lines).encode()


class Exporter(asyncio.Protocol):
    """One connection. The class holds what all share."""

    made: list[list[bytes]]
    scraped: list[int]
    total = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._buffer = b""

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while (end := self._buffer.find(b"\r\n\r\n")) >= 0:
            path = self._buffer.split(b" ", 2)[1]
            self._buffer = self._buffer[end + 4 :]
            body = b"%d" % Exporter.total if path == b"/count" else self._scrape(int(path.split(b"/")[2]))
            head = f"HTTP/1.1 200 OK\r\nContent-Type: {_CONTENT_TYPE}\r\nContent-Length: {len(body)}\r\n\r\n"
            self._transport.writelines((head.encode(), body))

    def _scrape(self, node: int) -> bytes:
        variant = self.made[node % len(self.made)]
        body = variant[min(self.scraped[node], len(variant) - 1)]
        self.scraped[node] += 1
        Exporter.total += 1
        return body


async def serve(port: int) -> None:
    server = await asyncio.get_running_loop().create_server(Exporter, "127.0.0.1", port, backlog=1024)
    await server.serve_forever()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("port", "nodes", "variants", "scrapes", "seed", "core"):
        parser.add_argument(f"--{name}", type=int, required=True)
    asked = parser.parse_args()
    os.sched_setaffinity(0, {asked.core})
    Exporter.made, Exporter.scraped = pages(asked.seed, asked.variants, asked.scrapes), [0] * asked.nodes
    gc.freeze()
    asyncio.run(serve(asked.port))


if __name__ == "__main__":
    main()
