"""How many requests were refused by a limit, by reason: at the door, or given up while they waited."""

from collections import Counter

from controlplane.contract.errors import TrimtabError


class Refusals:
    """The event loop's."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def note(self, failure: TrimtabError) -> None:
        """Counts failures that say by which limit; others are not refusals."""
        if degraded := failure.detail.get("degraded"):
            self.counts[degraded["reason"]] += 1
