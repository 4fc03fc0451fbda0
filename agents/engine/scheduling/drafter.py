"""The seam between the scheduler and whoever proposes tokens ahead."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from agents.engine.scheduling.request import Request

if TYPE_CHECKING:
    from agents.engine.scheduling.step_plan import Work


class Drafter(Protocol):
    """Proposes tokens that the target model then verifies. Each step: `reserve` for every decoding request, `propose`
    once, `commit` for every work that gave tokens. Steps may pass without any of these (speculation switched off).

    Invariants of every implementation:
    - it reads requests and writes nothing of theirs but its own state and, in `propose`, the works' drafts: whatever
      it drafts, each output token is the target's own, so that speculation changes speed, never text;
    - a work gets as many drafts as it has `draft_count`, never more;
    - nothing is assumed between steps: a request may have been preempted, started from a cached prefix, advanced
      without drafts, had drafts rejected, or have ended;
    - what it keeps for a request hangs on the request and goes with it.
    """

    def reserve(self, request: Request, limit: int) -> int:
        """How many drafts it will propose for a decoding request's next step, 0 to `limit`; `limit` is positive."""
        ...

    def propose(self, works: Sequence["Work"], spare: int) -> int:
        """Fill in the works' drafts. Returns how many tokens it took in besides, because it had missed them; at most
        `spare`, which is what the step's budget has left."""
        ...

    def commit(self, work: "Work", accepted: int) -> None:
        """The step's outcome, told before the request gets its tokens: how many of the work's drafts were accepted."""
        ...
