"""Further answers to a prompt, held until the first one's prompt is computed, so that they find it in the cache."""

from collections.abc import Sequence

from agents.engine.scheduling.request import FinishReason, Request, Status


class Siblings:
    """The stepping thread's. Invariant: a request is held at most once, and not known to the scheduler meanwhile."""

    def __init__(self) -> None:
        self._held: dict[Request, list[Request]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._held.values()))

    def hold(self, first: Request, others: Sequence[Request]) -> None:
        if others:
            self._held[first] = list(others)

    def release(self, first: Request) -> list[Request]:
        """Those who waited for this one, which has given something or come to its end."""
        others = self._held.pop(first, [])
        for request in others:
            request.parent = first
        return others

    def forget(self, request: Request, reason: FinishReason) -> bool:
        """End one that is held; False: it is not."""
        for others in self._held.values():
            if request in others:
                others.remove(request)
                request.status, request.finish_reason = Status.FINISHED, reason
                return True
        return False

    def release_all(self) -> list[Request]:
        held = [request for others in self._held.values() for request in others]
        self._held.clear()
        return held
