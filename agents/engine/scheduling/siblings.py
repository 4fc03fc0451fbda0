"""Further answers to a prompt, held until the first one's prompt is computed, so that they find it in the cache."""

from collections.abc import Sequence as Items

from agents.engine.scheduling.sequence import FinishReason, Sequence, Status


class Siblings:
    """The stepping thread's. Invariant: a sequence is held at most once, and not known to the scheduler meanwhile."""

    def __init__(self) -> None:
        self._held: dict[Sequence, list[Sequence]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._held.values()))

    def hold(self, first: Sequence, others: Items[Sequence]) -> None:
        if others:
            self._held[first] = list(others)

    def release(self, first: Sequence) -> list[Sequence]:
        """Those who waited for this one, which has given something or come to its end."""
        others = self._held.pop(first, [])
        for sequence in others:
            sequence.parent = first
        return others

    def forget(self, sequence: Sequence, reason: FinishReason) -> bool:
        """End one that is held; False: it is not."""
        for others in self._held.values():
            if sequence in others:
                others.remove(sequence)
                sequence.status, sequence.finish_reason = Status.FINISHED, reason
                return True
        return False

    def release_all(self) -> list[Sequence]:
        held = [sequence for others in self._held.values() for sequence in others]
        self._held.clear()
        return held
