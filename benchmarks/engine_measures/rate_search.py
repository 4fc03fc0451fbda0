"""Finding the highest request rate that holds an objective, from trials that each say yes or no. Pure.

Rates lie on a ladder whose steps differ by `factor`. A search climbs while trials hold and steps down while they do
not; its answer is the highest rung that held with the next one failing. It may begin where an earlier one ended.
"""

from dataclasses import dataclass, field


@dataclass
class RateSearch:
    """`rung` is the next to try; None: finished. A rate is base * factor ** rung."""

    base: float
    factor: float = 1.1
    rung: int | None = 0
    stride: int = 1
    """Rungs per step until the answer is bracketed; then it is halved down to one. A power of two."""
    lowest: int = -64
    held: dict[int, bool] = field(default_factory=dict)

    def rate(self, rung: int) -> float:
        return self.base * float(self.factor**rung)

    @property
    def answer_rung(self) -> int | None:
        """The highest rung that held below every one that failed; None when none did."""
        failed = [rung for rung, held in self.held.items() if not held]
        ceiling = min(failed, default=None)
        fitting = [rung for rung, held in self.held.items() if held and (ceiling is None or rung < ceiling)]
        return max(fitting, default=None)

    def report(self, held: bool) -> None:
        """The outcome of the trial at `rung`; chooses the next."""
        assert self.rung is not None
        self.held[self.rung] = held
        self.rung = self._next(self.rung, held)

    def _next(self, rung: int, held: bool) -> int | None:
        below = self.answer_rung
        failed = [place for place, fine in self.held.items() if not fine and (below is None or place > below)]
        above = min(failed, default=None)
        if above is None:
            return rung + self.stride
        if below is None:
            return rung - self.stride if rung - self.stride >= self.lowest else None
        return None if above - below <= 1 else (above + below) // 2
