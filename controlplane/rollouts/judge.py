"""The canary's judge (pure): is the canary slower than the control, surely not slower, or faster?

Guarantees, for whatever number of looks and at whatever moment one stops (Ville's inequality on e-processes):
- WORSE is said of a canary that is slower by no more than the tolerance with probability at most `alpha`, all metrics
  together (each is held to alpha / m: Bonferroni, for metrics are correlated and their e-values are not multiplied).
- NOT_WORSE is said of a canary that is slower by the tolerance or more, at the median or at p90 of some metric, with
  probability at most `alpha`: all metrics must show both, each at alpha (an intersection-union test). The tail beyond
  is too rare to prove at every traffic; there, evidence of harm holds the verdict back (`LEANING`).
- BETTER: at most `alpha` of canaries that are not faster in any metric are called faster (Bonferroni again).
The guarantees are exact for independent requests and as good as the estimated dispersion `phi` for others. They are of
raw timings: of values that a sender counted in wider buckets than the tolerance, NOT_WORSE is never said, and the
evidence says why.

What is counted: at edges at the control's past quantiles p (one set per prompt bucket), how many values of each arm lie
above. The canary's edge is moved up by the tolerance, rounded to whole buckets against the verdict: up for WORSE, down
for NOT_WORSE; not moved for "faster".

What is combined, and why it stays an e-process:
- over ticks and prompt buckets, within one (metric, p, r): logs are added. Given the margins, the counts of separate
  requests are independent, so products of their e-values are e-values (see `exceedance`).
- over p and the odds ratios r: the mean of the processes, for nested edges count the same requests twice.
- over metrics: nothing but the bounds above.
A bucket's counts are held back until both arms have some; when they are judged depends on the numbers of requests only,
never on their latencies, so the margins stay ancillary.

With one serving node there is no concurrent control: each window of the canary is then paired with one window of the
node's own history, the newest first and each used once. Load that changed meanwhile is not cancelled; the evidence says
`"control": "before"`.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from pydantic import BaseModel

from controlplane.contract.histogram import error_text, is_coarse, upper_edge
from controlplane.contract.rollouts import Verdict
from controlplane.rollouts.exceedance import log_mean_exp
from controlplane.rollouts.stream import LEVELS, Counts, Stream, Window
from controlplane.telemetry.sketch import Sketch

LEANING = math.log(3.0)
"""No good verdict while any level's evidence of harm is above this: a tail that looks worse is waited for."""

PRIOR_PHI = {"itl": 20.0}
"""Dispersion assumed before it has been seen: the gaps of one request share its steps."""
DEFAULT_PRIOR_PHI = 1.5

Control = Literal["concurrent", "before"]


@dataclass
class ErrorWindow:
    """Requests finished in one tick, and those of them that ended in an error."""

    control: int = 0
    control_errors: int = 0
    canary: int = 0
    canary_errors: int = 0


class Judge(BaseModel):
    """The whole judging of one rollout. JSON in, JSON out (`model_dump_json`), so that a restart continues it."""

    alpha: float
    tolerance: float
    control: Control
    streams: dict[str, Stream]
    errors: Stream
    ticks: int = 0  # Windows judged.

    @classmethod
    def start(cls, metrics: Sequence[str], *, alpha: float, tolerance: float, control: Control) -> "Judge":
        streams = {name: Stream.start(len(LEVELS), PRIOR_PHI.get(name, DEFAULT_PRIOR_PHI)) for name in metrics}
        return cls(
            alpha=alpha,
            tolerance=tolerance,
            control=control,
            streams=streams,
            errors=Stream.start(1, DEFAULT_PRIOR_PHI),
        )

    @property
    def bound(self) -> float:
        """ln(m / alpha), m: the metrics and the errors."""
        return math.log((len(self.streams) + 1) / self.alpha)

    def rehearse(self, history: Mapping[str, Sequence[Window]]) -> None:
        """Learn edges and dispersion from before the canary, when both arms ran the same configuration.

        With a concurrent control a window's arms are those of the judging; without one, only `Window.control` is set.
        """
        for metric, windows in history.items():
            stream = self.streams[metric]
            total: dict[str, Sketch] = {}
            for window in windows:
                for bucket, sketch in window.control.items():
                    total.setdefault(bucket, Sketch()).merge(sketch)
            stream.learn_edges(total)
            if not stream.edges:
                continue
            if self.control == "before":
                half = len(windows) // 2
                pairs = [Window(a.control, b.control) for a, b in zip(windows[:half], windows[half:], strict=False)]
                stream.past = [stream.count(window, self.tolerance) for window in windows]
            else:
                pairs = list(windows)
            for window in pairs:
                stream.take(stream.count(window, self.tolerance), rehearsal=True)
            stream.pending = {}

    def feed(self, windows: Mapping[str, Window], errors: ErrorWindow | None = None) -> None:
        """Judge one tick; metrics without a window in it had no data."""
        self.ticks += 1
        for metric, window in windows.items():
            self._feed(self.streams[metric], window)
        if errors is not None and self.control == "concurrent":
            failed = [errors.canary_errors]
            counts = Counts(
                n_a=errors.control,
                n_b=errors.canary,
                a=[errors.control_errors],
                worse=failed,
                not_worse=failed,
                faster=failed,
            )
            self.errors.take({"": counts})
        for stream in self.streams.values():
            stream.is_worse = stream.is_worse or stream.log_worse() >= self.bound
            stream.is_faster = stream.is_faster or stream.log_faster() >= self.bound
            stream.is_not_worse = stream.is_not_worse or stream.log_not_worse() >= -math.log(self.alpha)
        self.errors.is_worse = self.errors.is_worse or self.errors.log_worse() >= self.bound

    def _feed(self, stream: Stream, window: Window) -> None:
        for arm, tally in ((window.control, stream.control), (window.canary, stream.canary)):
            for sketch in arm.values():
                tally.add(sketch)
        if not stream.edges:
            # A window that edges are learned from is not judged: they must not depend on what they count.
            stream.learn_edges(window.control)
            return
        counts = stream.count(window, self.tolerance)
        if self.control == "before":
            if not stream.past:
                return
            for bucket, past in stream.past.pop().items():
                mine = counts.setdefault(bucket, Counts.none(len(LEVELS)))
                mine.n_a, mine.a = past.n_a, past.a
        stream.take(counts)

    def verdict(self) -> Verdict | None:
        """WORSE, BETTER or NOT_WORSE once the evidence suffices, None before."""
        streams = [*self.streams.values(), self.errors]
        if any(stream.is_worse for stream in streams):
            return Verdict.WORSE
        if any(stream.leaning_worse() > LEANING for stream in streams):
            return None
        if any(stream.is_faster for stream in self.streams.values()):
            return Verdict.BETTER
        if all(stream.is_not_worse and not self._blind(stream) for stream in self.streams.values()):
            return Verdict.NOT_WORSE
        return None

    def _blind(self, stream: Stream) -> bool:
        """Whether a slowdown beyond the tolerance could hide inside one of the sender's own buckets."""
        return is_coarse(stream.relative_error) and stream.relative_error > self.tolerance

    def evidence(self) -> dict[str, Any]:
        """The account of it for the API and the ledger; natural logs, seconds."""
        failed = self.errors.seen()
        return {
            "control": self.control,
            "alpha": self.alpha,
            "tolerance": self.tolerance,
            "windows": self.ticks,
            "log_bounds": {"worse": self.bound, "faster": self.bound, "not_worse": -math.log(self.alpha)},
            "metrics": {name: self._account(stream) for name, stream in self.streams.items()},
            "errors": {
                "control": {"count": failed.n_a, "errors": failed.a[0]},
                "canary": {"count": failed.n_b, "errors": failed.faster[0]},
                "log_e": {"worse": self.errors.log_worse()},
                "finding": "worse" if self.errors.is_worse else "undecided",
            },
        }

    def _account(self, stream: Stream) -> dict[str, Any]:
        total = stream.totals()
        findings = (
            ("worse", stream.is_worse),
            ("faster", stream.is_faster),
            ("not_worse", stream.is_not_worse and not self._blind(stream)),
            ("leaning_worse", stream.leaning_worse() > LEANING),
        )
        return self._accuracy(stream) | {
            "finding": next((name for name, holds in findings if holds), "undecided"),
            "control": stream.control.quantiles(),
            "canary": stream.canary.quantiles(),
            "judged": {"control": total.n_a, "canary": total.n_b},
            "exceedances": [
                {
                    "q": q,
                    "control": total.a[place],
                    "canary": total.faster[place],
                    "canary_beyond_tolerance": total.worse[place],
                    "phi": stream.levels[place].dispersion.phi,
                    "log_e": {
                        "worse": log_mean_exp(np.array(stream.levels[place].worse)),
                        "not_worse": log_mean_exp(np.array(stream.levels[place].not_worse)),
                        "faster": log_mean_exp(np.array(stream.levels[place].faster)),
                    },
                }
                for place, q in enumerate(LEVELS)
            ],
            "log_e": {
                "worse": stream.log_worse(),
                "not_worse": stream.log_not_worse(),
                "faster": stream.log_faster(),
            },
            "edges_s": {
                bucket or "all": [upper_edge(position) for position in edges] for bucket, edges in stream.edges.items()
            },
        }

    def _accuracy(self, stream: Stream) -> dict[str, Any]:
        if not is_coarse(stream.relative_error):
            return {}
        says = "counts between the bounds are interpolated"
        if self._blind(stream):
            says = (
                f"a slowdown beyond the tolerance of {self.tolerance:.0%} could hide inside a bucket, "
                "so this metric cannot show that the canary is not worse"
            )
        error = stream.relative_error
        return {"accuracy": {"relative_error": round(error, 4), "statement": f"{error_text(error)}; {says}"}}
