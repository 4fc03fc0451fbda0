"""The tempered exceedance e-detector (Shiryaev-Roberts sum of e-values) of one stream, and of its recovery.

Per tick and stratum (prompt bucket): of n requests, K lie above the baseline's edge; under the null the share is at
most pi0. For alternatives pi1 = r * pi0 the likelihood ratio exp(K ln(pi1/pi0) + (n-K) ln((1-pi1)/(1-pi0))) has
expectation at most 1, and so has its power 1/phi, phi >= 1 (Jensen). M_r <- (M_r + 1) L_r; an alarm when the mean over
r of M_r reaches A keeps the mean time to a false alarm at A ticks or more (Shin, Ramdas and Rinaldo, "E-detectors",
2022, theorem 2.4), as far as the null and the tempering describe the noise.

A stream over several strata multiplies their ratios: a changed mix of prompts moves no evidence.
"""

import math
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from controlplane.evidence.binomial import log_likelihood_ratio

RATIOS = (1.25, 1.5, 2.0, 3.0, 5.0)
RECOVERED = math.log(100.0)
"""Evidence (log likelihood ratio, as in Page's CUSUM) that the share is back under the null, to end an alarm."""
CAP_OVER_THRESHOLD = 5.0


@dataclass(frozen=True)
class Exceedances:
    """One stratum of one tick: `above` of `count` requests above the edge, at most the share `null` expected."""

    count: int
    above: int
    null: float


@dataclass
class Stream:
    """The evidence so far. `log_next[r]` is ln(M_r + 1); `gain[r]` and `since_s[r]` the CUSUM that dates the onset.

    line, rise, shown: where a scan says instead what there is (`regressions/course`): of which line, how large a rise
    of its mean score, and ln of the evidence.
    """

    log_next: list[float] = field(default_factory=lambda: [0.0] * len(RATIOS))
    gain: list[float] = field(default_factory=lambda: [0.0] * len(RATIOS))
    since_s: list[float | None] = field(default_factory=lambda: [None] * len(RATIOS))
    alarmed: bool = False
    onset_s: float | None = None
    slow_above: int = 0  # Since the alarm: requests above the edge, and how many the null allows.
    slow_expected: float = 0.0
    recovery: float = 0.0
    line: str = ""
    rise: float = 0.0
    shown: float = 0.0

    @property
    def is_blank(self) -> bool:
        """Whether it has been told nothing yet."""
        return self.since_s[0] is None

    @property
    def log_evidence(self) -> float:
        """ln of (the mean of M_r, plus 1), or what the scan of a line shows."""
        if self.line:
            return self.shown
        top = max(self.log_next)
        return top + math.log(sum(math.exp(value - top) for value in self.log_next) / len(RATIOS))

    @property
    def log_gain(self) -> float:
        """ln of the evidence for the likeliest change alone."""
        return max(self.gain) if self.line else self.log_evidence

    @property
    def suspected_since_s(self) -> float | None:
        """When the likeliest change began, seconds since the epoch; None when nothing speaks for one."""
        best = max(range(len(RATIOS)), key=lambda place: self.gain[place])
        return self.since_s[best] if self.gain[best] > 0.0 else None

    def suspected_from(self, log_gain: float) -> float | None:
        """In alarm its onset; else when the likeliest change began, where so much speaks for it."""
        if self.alarmed:
            return self.onset_s
        return self.suspected_since_s if max(self.gain) >= log_gain else None

    def dump(self) -> dict[str, Any]:
        return dict(vars(self))

    @classmethod
    def load(cls, state: dict[str, Any]) -> "Stream":
        return cls(**deepcopy(state))


def log_ratio(cells: Sequence[Exceedances], ratio: float, phi: float) -> float:
    """ln of the tempered likelihood ratio of one tick, all strata together."""
    total = 0.0
    for cell in cells:
        # Far above the null a multiple of it would leave the unit interval; half-way to 1 stays a valid alternative.
        alternative = min(ratio * cell.null, (1.0 + cell.null) / 2.0)
        total += log_likelihood_ratio(cell.above, cell.count, cell.null, alternative)
    return total / phi


def observe(stream: Stream, at_s: float, cells: Sequence[Exceedances], phi: float, log_threshold: float) -> None:
    """Take in one tick that started at `at_s`. Raises the alarm, or ends it, by setting `stream.alarmed`."""
    if stream.alarmed:
        _observe_recovery(stream, cells, phi)
        return
    for place, ratio in enumerate(RATIOS):
        gained = log_ratio(cells, ratio, phi)
        log_m = min(stream.log_next[place] + gained, log_threshold + CAP_OVER_THRESHOLD)
        stream.log_next[place] = max(log_m, 0.0) + math.log1p(math.exp(-abs(log_m)))
        if stream.gain[place] <= 0.0:
            stream.since_s[place] = at_s
        stream.gain[place] = max(0.0, stream.gain[place] + gained)
    if stream.log_evidence >= log_threshold:
        stream.alarmed, stream.onset_s = True, stream.suspected_since_s
        stream.slow_above, stream.slow_expected, stream.recovery = 0, 0.0, 0.0
        tally(stream, cells)


def tally(stream: Stream, cells: Sequence[Exceedances]) -> None:
    """Count what was slow since the alarm."""
    stream.slow_above += sum(cell.above for cell in cells)
    stream.slow_expected += sum(cell.count * cell.null for cell in cells)


def _observe_recovery(stream: Stream, cells: Sequence[Exceedances], phi: float) -> None:
    """The mirrored test: the null share against the alternative nearest below what the alarm has shown so far."""
    shown = stream.slow_above / stream.slow_expected if stream.slow_expected > 0.0 else RATIOS[-1]
    ratio = max((candidate for candidate in RATIOS if candidate <= shown), default=RATIOS[0])
    gained = -log_ratio(cells, ratio, phi)
    stream.recovery = max(0.0, stream.recovery + gained)
    if stream.recovery <= 0.0:
        tally(stream, cells)
    if stream.recovery >= RECOVERED:
        fresh = Stream()
        for name, value in vars(fresh).items():
            setattr(stream, name, value)
