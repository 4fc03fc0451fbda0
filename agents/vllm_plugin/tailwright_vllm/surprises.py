"""What of vLLM was not as known: said once each in vLLM's own log, and counted.

The logger is a child of vLLM's, because vLLM configures no other: a line of a logger of another name would be lost.
"""

import logging

log = logging.getLogger("vllm.tailwright")


class Surprises:
    """Counts by place. The first at a place is a line in the log, with what follows from it; the rest only count."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}

    def note(self, place: str, consequence: str, error: BaseException | str) -> None:
        seen = self.counts.get(place, 0)
        self.counts[place] = seen + 1
        if not seen:
            log.warning("tailwright: %s (%s)", consequence, described(error))


def described(error: BaseException | str) -> str:
    """The error in one line."""
    return error if isinstance(error, str) else f"{type(error).__name__}: {error}"


surprises = Surprises()
"""Those of this process."""
