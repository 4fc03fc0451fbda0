"""When requests come and how long their prompts are: real traffic, superposed and thinned to a rate that a day bends.

The Azure LLM inference trace of 2023 (conversation; Patel et al., "Splitwise", ISCA 2024; CC-BY) is an hour of one
service. Copies of it, each begun at a place drawn anew for each lap, keep its bursts; thinning by a daily curve and a
weekday gives it a week. Without the file the project's own generator, fitted to that trace, stands in, and says so.
"""

import csv
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tuner.workload.generate import CONV, generate

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

TRACE = Path("../shared/data/azure-llm-2023/AzureLLMInferenceTrace_conv.csv")
DAY_S = 86400.0


@dataclass(frozen=True)
class Lap:
    """An hour of arrivals. at_s: float64[n], ascending from 0; prompts: int64[n], in tokens."""

    at_s: Floats
    prompts: Ints
    source: str

    @property
    def span_s(self) -> float:
        return float(self.at_s[-1])

    @property
    def rate(self) -> float:
        return self.at_s.size / self.span_s


def lap(path: Path | None = None) -> Lap:
    """The trace, or what is generated in its place."""
    file = path or TRACE
    if not file.exists():
        made = generate(CONV, seed=1, rate_per_s=5.5, requests=20_000)
        at = np.array([one.timestamp / 1000.0 for one in made.requests])
        return Lap(at - at[0], np.array([one.input_length for one in made.requests]), "generated, fitted to Azure 2023")
    with file.open() as lines:
        rows = list(csv.DictReader(lines))
    at = np.array([datetime.fromisoformat(row["TIMESTAMP"][:26]).timestamp() for row in rows])
    return Lap(
        at - at[0], np.array([int(row["ContextTokens"]) for row in rows]), "Azure LLM inference 2023, conversation"
    )


def day_curve(at_s: Floats, depth: float) -> Floats:
    """Share of the week's busiest traffic: a day that is busy from nine to six and quieter at the weekend."""
    if not depth:
        return np.ones_like(at_s)
    hour = at_s % DAY_S / 3600.0
    wave = 0.5 - 0.5 * np.cos(2 * np.pi * (hour - 3.0) / 24.0)
    lunch = 0.12 * np.exp(-0.5 * ((hour - 13.0) / 0.8) ** 2)
    weekend = np.where(at_s // DAY_S % 7 >= 5, 0.65, 1.0)
    return np.asarray((1.0 - depth * (1.0 - wave) - lunch * depth) * weekend)


class Traffic:
    """Arrivals chunk by chunk; `rate` is that of the busiest moment of the week, requests a second."""

    def __init__(self, source: Lap, rate: float, depth: float, random: np.random.Generator) -> None:
        self._source, self._rate, self._depth, self._random = source, rate, depth, random
        self._copies = [self._laps() for _ in range(int(np.ceil(1.3 * rate / source.rate)))]
        self._held: list[tuple[Floats, Ints]] = [(np.zeros(0), np.zeros(0, dtype=np.int64)) for _ in self._copies]

    def _laps(self) -> Iterator[tuple[Floats, Ints]]:
        begin = -float(self._random.uniform(0.0, self._source.span_s))
        for _ in itertools.count():
            turn = int(self._random.integers(self._source.at_s.size))
            at = np.roll(self._source.at_s, -turn)
            at = at - at[0]
            at[at < 0.0] += self._source.span_s
            yield begin + at, np.roll(self._source.prompts, -turn)
            begin += self._source.span_s + 1.0 / self._source.rate

    def until(self, end_s: float) -> tuple[Floats, Ints]:
        """The arrivals from where the last call ended until `end_s`: seconds and tokens, in order."""
        times, prompts = [], []
        for place, copy in enumerate(self._copies):
            at, tokens = self._held[place]
            while at.size == 0 or at[-1] < end_s:
                more_at, more_tokens = next(copy)
                kept = more_at >= 0.0
                at, tokens = np.concatenate([at, more_at[kept]]), np.concatenate([tokens, more_tokens[kept]])
            cut = int(np.searchsorted(at, end_s))
            times.append(at[:cut])
            prompts.append(tokens[:cut])
            self._held[place] = at[cut:], tokens[cut:]
        at, tokens = np.concatenate(times), np.concatenate(prompts)
        order = np.argsort(at, kind="stable")
        at, tokens = at[order], tokens[order]
        share = self._rate * day_curve(at, self._depth) / (self._source.rate * len(self._copies))
        kept = self._random.random(at.size) < share
        return at[kept], tokens[kept]
