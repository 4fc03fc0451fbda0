"""What a check of the store has found."""

from dataclasses import dataclass, field

MOST = 1_000
"""What goes beyond is only counted: a store that is broken all over would fill the memory."""


@dataclass(frozen=True)
class Finding:
    """Something that is not as it must be, and where."""

    place: str
    problem: str

    def __str__(self) -> str:
        return f"{self.place}: {self.problem}"


@dataclass
class Findings:
    all: list[Finding] = field(default_factory=list)
    more: int = 0

    def add(self, place: str, problem: str) -> None:
        if len(self.all) < MOST:
            self.all.append(Finding(place, problem))
        else:
            self.more += 1
