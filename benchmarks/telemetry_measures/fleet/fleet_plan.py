"""What the simulated fleet is to do, and what it says it has done: the two files between a section and the load."""

import hashlib
import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal

Form = Literal["packed", "otlp"]
Encoding = Literal["zstd", "gzip", "identity"]


@dataclass(frozen=True)
class FleetPlan:
    """nodes report each `interval_s`, their phases evenly spread, for `seconds`; node n goes to urls[n % len(urls)].

    With `history_start` (a window) they send `reports_each` reports back to back instead, of `sections` windows each,
    `spacing` windows apart: as fast as the service takes them. Runs with another `stream_salt` are no repeats of each
    other.
    """

    urls: tuple[str, ...]
    nodes: int
    seconds: float = 0.0
    interval_s: float = 10.0
    form: Form = "packed"
    encoding: Encoding = "zstd"
    connections: int = 256
    variants: int = 512
    pools: int = 8
    seed: int = 1
    stream_salt: int = 0
    core: int | None = None
    history_start: int | None = None
    reports_each: int = 0
    sections: int = 1
    spacing: int = 2
    limit_s: float = 0.0

    def save(self, path: Path) -> None:
        path.write_text(json.dumps(asdict(self)), encoding="utf-8")

    @classmethod
    def load(cls, path: Path) -> "FleetPlan":
        given = json.loads(path.read_text(encoding="utf-8"))
        return cls(**{**given, "urls": tuple(given["urls"])})


@dataclass
class FleetOutcome:
    """Counts are of reports. `refused`: answers that were no 200 by status, each tried again where that may help.

    acknowledged_each_s, slowest_ms_each_s: by seconds since `started_at`, of the acknowledgement. `counted`: values
    acknowledged, by node and metric. Milliseconds from when a report was due (`due`), and from when it was first sent
    (`sent`).
    """

    started_at: float = 0.0
    ended_at: float = 0.0
    scheduled: int = 0
    acknowledged: int = 0
    refused: dict[str, int] = field(default_factory=dict)
    lost_connections: int = 0
    given_up: int = 0
    first_refusal: str = ""
    first_answer_body: str = ""
    due_ms: dict[str, float] = field(default_factory=dict)
    sent_ms: dict[str, float] = field(default_factory=dict)
    acknowledged_each_s: list[int] = field(default_factory=list)
    slowest_ms_each_s: list[float] = field(default_factory=list)
    counted: list[list[int]] = field(default_factory=list)
    first_window: int = 0
    last_window: int = 0
    body_bytes: float = 0.0
    cpu_s: float = 0.0

    def save(self, path: Path) -> None:
        # Whole or not at all: the section waits for the file.
        part = path.with_suffix(".part")
        part.write_text(json.dumps(asdict(self)), encoding="utf-8")
        part.rename(path)

    @classmethod
    def load(cls, path: Path) -> "FleetOutcome":
        return cls(**json.loads(path.read_text(encoding="utf-8")))

    @property
    def refusals(self) -> int:
        return sum(self.refused.values())


def token_of(seed: int, node: int) -> str:
    """A node's own token: the load and the database agree on it without a word."""
    return "tailwright_" + hashlib.sha256(f"bench {seed} {node}".encode()).hexdigest()


def stream_of(seed: int, node: int, salt: int = 0) -> bytes:
    return hashlib.sha256(f"stream {seed} {node} {salt}".encode()).digest()[:16]


def ready_file(outcome: Path) -> Path:
    return outcome.with_suffix(".ready")


def go_file(outcome: Path) -> Path:
    return outcome.with_suffix(".go")
