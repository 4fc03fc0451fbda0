"""The share of requests served, canary against control (pure): the guardrail that is judged at once.

Guarantee: given how many requests each arm was offered and how many were lost together, the canary's losses are
hypergeometric where both arms lose the same share, so `Stream`'s e-process holds from the first window on: it waits for
no edges and no least time, and arms that lose equally are told apart with probability at most alpha. What survives is
no excuse: an arm that throws its slowest requests away has faster ones left, and is still worse.

Lost is what `finish_reasons.FAILED` says. A request that its client left was not offered to the end: it counts nowhere.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel

from controlplane.contract.reports import finish_reasons
from controlplane.rollouts.judging.evidence_of_metric import AT_ONCE, Counts, Stream

ODDS = (1.5, 2.0, 3.0, 5.0, 10.0, 30.0, 100.0)
"""Alternatives up to a canary that loses a third of its requests beside a control that loses none."""

PRIOR_PHI = 1.5
CAUTION = 1.5
"""Losses come in bursts, and how large they are is learned where there were any: mostly from before the canary. Without
caution 4 of 60 pairs of equal, overloaded queues were told apart (`benchmarks.rollout_measures.canary_shed`), with it
none."""


@dataclass
class Outcomes:
    """Requests that ended in one tick and were offered to the end, and those of them that were lost."""

    control: int = 0
    control_lost: int = 0
    canary: int = 0
    canary_lost: int = 0
    control_reasons: dict[str, int] = field(default_factory=dict)
    canary_reasons: dict[str, int] = field(default_factory=dict)

    def add(self, reason: str, requests: int, *, is_canary: bool) -> None:
        """Count requests that ended for this reason in one arm."""
        if reason in finish_reasons.CLIENT:
            return
        lost = requests if reason in finish_reasons.FAILED else 0
        if is_canary:
            self.canary, self.canary_lost = self.canary + requests, self.canary_lost + lost
        else:
            self.control, self.control_lost = self.control + requests, self.control_lost + lost
        if lost:
            reasons = self.canary_reasons if is_canary else self.control_reasons
            reasons[reason] = reasons.get(reason, 0) + lost


class ServedShare(BaseModel):
    """The evidence so far. JSON in, JSON out."""

    stream: Stream
    past: list[tuple[int, int]] = []  # Without a concurrent control: (offered, lost) of its own history, newest last.
    reasons: dict[str, dict[str, int]] = {}  # Arm to reason to lost requests.

    @classmethod
    def start(cls) -> "ServedShare":
        return cls(stream=Stream.start([1.0], PRIOR_PHI, odds=ODDS, pace=AT_ONCE, caution=CAUTION))

    def rehearse(self, history: Sequence[Outcomes], *, concurrent: bool) -> None:
        """Learn how losses scatter from before the canary, when both arms ran the same configuration."""
        pairs = history
        if not concurrent:
            self.past = [(window.control, window.control_lost) for window in history]
            half = len(history) // 2
            pairs = [
                Outcomes(a.control, a.control_lost, b.control, b.control_lost)
                for a, b in zip(history[:half], history[half:], strict=False)
            ]
        for window in pairs:
            lost = window.control_lost + window.canary_lost
            if lost or self.stream.pending or not min(window.control, window.canary):  # Else it teaches nothing.
                self.stream.take({"": _counts(window)}, rehearsal=True)
        self.stream.pending = {}

    def feed(self, window: Outcomes, *, concurrent: bool, bound: float) -> None:
        """Judge one tick; `bound`: the log of the evidence from which on it is called worse."""
        for arm, found in (("control", window.control_reasons), ("canary", window.canary_reasons)):
            known = self.reasons.setdefault(arm, {})
            for reason, lost in found.items():
                known[reason] = known.get(reason, 0) + lost
        if not concurrent:
            if not self.past:
                return
            offered, lost = self.past.pop()
            window = Outcomes(offered, lost, window.canary, window.canary_lost)
        self.stream.take({"": _counts(window)})
        self.stream.is_worse = self.stream.is_worse or self.stream.log_worse() >= bound

    def evidence(self) -> dict[str, Any]:
        """The account of it; `share` is None while nothing was offered."""
        seen = self.stream.seen()
        arms = (("control", seen.n_a, seen.a[0]), ("canary", seen.n_b, seen.faster[0]))
        return {
            **{
                arm: {
                    "offered": offered,
                    "lost": lost,
                    "share": round(1.0 - lost / offered, 6) if offered else None,
                    "reasons": self.reasons.get(arm, {}),
                }
                for arm, offered, lost in arms
            },
            "log_e": {"worse": self.stream.log_worse()},
            "finding": "worse" if self.stream.is_worse else "undecided",
        }


def _counts(window: Outcomes) -> Counts:
    lost = [window.canary_lost]
    return Counts(
        n_a=window.control, n_b=window.canary, a=[window.control_lost], worse=lost, not_worse=lost, faster=lost
    )
