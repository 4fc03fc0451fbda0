"""What the acts of the story share: the fleet, the API, waiting for something to be seen, and the figures kept so far.

Waiting is polling the API within a limit; nothing is assumed to have happened because time has passed. What does not
happen ends the story with what was expected, what was seen instead, and the page and the logs that show it.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, TypeVar

import httpx

from agents.demo.demo_fleet import Fleet
from agents.demo.figures import Span, read_span
from agents.demo.plan import POOL, Plan
from agents.demo.view import View
from agents.demo.webhook_receiver import Receiver
from controlplane.client import Client
from controlplane.contract.bodies.alerts import Alert, AlertState
from controlplane.contract.bodies.nodes import NodeView
from controlplane.contract.bodies.telemetry import QuantileSeries
from controlplane.contract.clock import utc_now
from controlplane.contract.duration_text import duration_text
from controlplane.contract.errors import TailwrightError
from controlplane.contract.metrics import WINDOW_S

T = TypeVar("T")
POLL_S = 0.5


class StepFailed(Exception):
    """A step did not happen: what was expected, and what was seen instead."""

    def __init__(self, expected: str, seen: str) -> None:
        super().__init__(f"expected: {expected}; seen: {seen}")
        self.expected, self.seen = expected, seen


@dataclass(frozen=True)
class Step:
    """One step of the story. `page` and `logs` (names of processes) are where to look when it does not happen."""

    title: str
    act: Callable[[], None]
    page: str = "/"
    logs: tuple[str, ...] = ("service",)


@dataclass
class Scene:
    """`spans` and `knobs` are the columns of the final table; `changed_at` is when the pool's revision changed last."""

    plan: Plan
    fleet: Fleet
    receiver: Receiver
    view: View
    spans: list[Span] = field(default_factory=list)
    knobs: dict[str, str] = field(default_factory=dict)
    good_revision: int = 0
    bad_revision: int = 0
    alert_id: int = 0
    told_at: datetime | None = None
    back_at: datetime | None = None
    traffic_since: datetime | None = None
    changed_at: datetime | None = None
    _client: Client | None = None

    @property
    def client(self) -> Client:
        if self._client is None:
            self._client = self.fleet.client()
        return self._client

    def until(self, expected: str, limit_s: float, look: Callable[[], tuple[T | None, str]]) -> T:
        """Poll `look` until it returns a value; its text is the news shown meanwhile."""
        deadline = time.monotonic() + limit_s
        news = "nothing yet"
        while time.monotonic() < deadline:
            self.fleet.processes.check()
            try:
                value, news = look()
            except (httpx.TransportError, TailwrightError) as error:
                value, news = None, f"{type(error).__name__}: {error}"
            self.view.say(news)
            if value is not None:
                return value
            time.sleep(POLL_S)
        raise StepFailed(f"{expected} within {limit_s:.0f} s", news)

    # -- reading -------------------------------------------------------------------------------------------------

    def quantiles(self, metric: str, window: str, by: Sequence[str]) -> list[QuantileSeries]:
        return self.client.quantiles(metric, window=window, by=list(by), pool=POOL, role="serving").series

    def serving(self) -> list[NodeView]:
        return [node for node in self.client.nodes() if node.pool == POOL]

    def running(self, revision: int) -> list[str]:
        """The serving nodes whose engine, read back, runs this revision."""
        return [node.node for node in self.serving() if node.effective and node.effective.revision == revision]

    def open_alerts(self) -> list[Alert]:
        """The pool's alerts that fire now, the newest first."""
        return [alert for alert in self.client.alerts(state=AlertState.FIRING) if alert.labels.get("pool") == POOL]

    def since_change(self, name: str) -> Span:
        """From the first whole window after the last change until now; empty until that window has begun."""
        assert self.changed_at is not None
        start = self.changed_at + timedelta(seconds=WINDOW_S)
        return read_span(self.client, name, start, max(utc_now(), start + timedelta(seconds=WINDOW_S)))

    def newest(self, name: str, span_s: float) -> Span:
        """The last `span_s` seconds, but nothing from before the last change."""
        whole = self.since_change(name)
        start = max(whole.start, whole.end - timedelta(seconds=span_s + WINDOW_S))
        return whole if start == whole.start else read_span(self.client, name, start, whole.end)

    def keep(self, span: Span, knobs: dict[str, Any] | None = None) -> None:
        """Remember a span for the table, with its configuration: what the first node runs unless `knobs` say."""
        self.spans.append(span)
        if knobs is None:
            effective = self.serving()[0].effective
            knobs = effective.knobs if effective else {}
        names = ("max_num_batched_tokens", "prefill_chunk_size", "num_speculative_tokens", "quantization")
        self.knobs[span.name] = ", ".join(str(knobs.get(name)) for name in names)

    def span(self, name: str) -> Span:
        return next(span for span in self.spans if span.name == name)


def headline(span: Span) -> str:
    return f"ttft p99 {duration_text(span.p99('ttft'))}" if span.requests else "no finished request yet"
