"""How a change of a rollout is asked for: once by its key, only of what was read, or dry.

`Idempotency-Key`: nothing is done twice (`db.keyed_answers`).
`If-Match`: the rollout is as it was read, else 412. `dry_run=true`: what would happen, and nothing does.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

from fastapi import Depends, Header, Query, Response
from sqlmodel import Session

from controlplane.contract.bodies.rollouts import Rollout, RolloutForecast
from controlplane.contract.errors import PreconditionFailed
from controlplane.db.keyed_answers import PRINTABLE, Keyed, KeyedRequest
from controlplane.rollouts import store
from controlplane.rollouts.dry_rollout import RadiusOf, forecast
from controlplane.rollouts.view import rollout_view

IfMatch = Annotated[
    str | None,
    Header(
        alias="If-Match",
        min_length=1,
        max_length=128,
        pattern=PRINTABLE,
        description="the `ETag` that the rollout was read with; 412 where it has moved since. `*`: as it is",
    ),
]
DryRun = Annotated[
    bool, Query(description="true: answer 200 with what would happen (a RolloutForecast), and do nothing")
]


@dataclass(frozen=True)
class CarefulRequest:
    """What one request's headers and address say of how it is to be done."""

    keyed: KeyedRequest
    if_match: str | None = None
    dry_run: bool = False

    def answer(
        self,
        session: Session,
        holder: str,
        now: datetime,
        act: Callable[[], Rollout],
        radius_of: RadiusOf,
        *,
        of: int | None = None,
        says: str = "",
    ) -> Rollout | RolloutForecast:
        """What `act` does, once and only where the rollout `of` is as it was read; or what it would do.

        radius_of: whom it can hurt, for a dry run. says: what else tells this request from another of the same key.
        Raises `PreconditionFailed`, `Conflict`.
        """
        if self.dry_run:
            return forecast(session, lambda: self._matched(session, act, of), radius_of)
        return self.keyed.answer(
            session, holder, now, lambda: self._matched(session, act, of), Rollout, says=f"{self.if_match}\n{says}"
        )

    def _matched(self, session: Session, act: Callable[[], Rollout], of: int | None) -> Rollout:
        if of is not None and self.if_match not in (None, "*"):
            etag = etag_of(rollout_view(store.row_of(session, of, lock=True)))
            if etag not in str(self.if_match).split(","):
                raise PreconditionFailed(
                    f"If-Match: rollout {of} has changed since it was read", field="If-Match", etag=etag
                )
        return act()


def etag_of(rollout: Rollout) -> str:
    """Of the phase, wave and message that were read; evidence that grows while it is judged does not count."""
    return f'"{rollout.id}-{rollout.step}"'


def shown(answer: Rollout | RolloutForecast, response: Response) -> Rollout | RolloutForecast:
    """The answer, its `ETag` beside it."""
    if isinstance(answer, Rollout):
        response.headers["ETag"] = etag_of(answer)
    return answer


def _given(keyed: Keyed, if_match: IfMatch = None, dry_run: DryRun = False) -> CarefulRequest:
    return CarefulRequest(keyed, if_match, dry_run)


Careful = Annotated[CarefulRequest, Depends(_given)]
