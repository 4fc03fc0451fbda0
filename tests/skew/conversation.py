"""What an agent of some version said to a service, and what it was answered, as one JSON file a version.

Bodies are kept as they went over the wire. Tokens are not kept: `who` says which one was shown.
"""

import base64
import json
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, Self

FOLDER = Path(__file__).with_name("recorded")
Who = Literal["enrolment", "agent", "operator"]


class Clock:
    """The service's, which stands until it is set."""

    def __init__(self, now: datetime) -> None:
        self.now = now

    def __call__(self) -> datetime:
        return self.now


@dataclass(frozen=True)
class Message:
    """Headers by lower-case name, without those that any HTTP library adds, and without tokens."""

    headers: dict[str, str]
    body: bytes

    def as_json(self) -> dict[str, Any]:
        return {"headers": self.headers, "body": base64.b64encode(self.body).decode()}

    @classmethod
    def of_json(cls, stored: dict[str, Any]) -> Self:
        return cls(dict(stored["headers"]), base64.b64decode(stored["body"]))


@dataclass(frozen=True)
class Exchange:
    """`time`: where the service's clock stood."""

    time: datetime
    who: Who
    method: str
    path: str
    said: Message
    status: int
    answered: Message


@dataclass(frozen=True)
class Conversation:
    """All of one agent's, in order, with what an operator did meanwhile."""

    version: str
    exchanges: list[Exchange] = field(default_factory=list)

    def save(self, file: Path) -> None:
        exchanges = [
            {
                "time": one.time.isoformat(),
                "who": one.who,
                "method": one.method,
                "path": one.path,
                "said": one.said.as_json(),
                "status": one.status,
                "answered": one.answered.as_json(),
            }
            for one in self.exchanges
        ]
        content = {"version": self.version, "exchanges": exchanges}
        file.write_text(json.dumps(content, indent=1) + "\n")

    @classmethod
    def load(cls, file: Path) -> Self:
        stored = json.loads(file.read_text())
        exchanges = [
            Exchange(
                datetime.fromisoformat(one["time"]),
                one["who"],
                one["method"],
                one["path"],
                Message.of_json(one["said"]),
                one["status"],
                Message.of_json(one["answered"]),
            )
            for one in stored["exchanges"]
        ]
        return cls(stored["version"], exchanges)
