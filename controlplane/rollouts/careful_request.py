"""How a change of a rollout is asked for: once by its key, only of what was read, or dry.

`Idempotency-Key`: the same key of the same holder gets the same answer for a day, and nothing is done twice.
`If-Match`: the rollout is as it was read, else 412. `dry_run=true`: what would happen, and nothing does.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Annotated

from fastapi import Depends, Header, Query, Request, Response
from sqlalchemy.exc import IntegrityError
from sqlmodel import Session, col, delete

from controlplane.contract.bodies.rollouts import Rollout, RolloutForecast
from controlplane.contract.errors import Conflict, PreconditionFailed
from controlplane.rollouts import store
from controlplane.rollouts.dry_rollout import RadiusOf, forecast
from controlplane.rollouts.tables import RolloutRequestRow
from controlplane.rollouts.view import rollout_view

KEPT = timedelta(days=1)
PRINTABLE = r"^[\x21-\x7e]+$"

Key = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        min_length=1,
        max_length=128,
        pattern=PRINTABLE,
        description="of one request; sent again with it within a day, it is answered as before and done once",
    ),
]
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

    where: str
    key: str | None = None
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
        if self.key is None:
            return self._matched(session, act, of)
        session.exec(delete(RolloutRequestRow).where(col(RolloutRequestRow.made_at) < now - KEPT))
        fingerprint = hashlib.sha256(f"{self.where}\n{self.if_match}\n{says}".encode()).hexdigest()
        earlier = session.get(RolloutRequestRow, (holder, self.key))
        if earlier is not None:
            if earlier.fingerprint != fingerprint:
                raise Conflict("Idempotency-Key: was used for another request within a day", field="Idempotency-Key")
            return Rollout.model_validate(earlier.answer)
        made = self._matched(session, act, of)
        answer = made.model_dump(mode="json")
        session.add(RolloutRequestRow(holder=holder, key=self.key, fingerprint=fingerprint, answer=answer, made_at=now))
        try:
            session.flush()
        except IntegrityError:  # The same request, in another replica at the same time.
            raise Conflict(
                "Idempotency-Key: the same request is being answered; send it again", field="Idempotency-Key"
            ) from None
        return made

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


def _given(request: Request, key: Key = None, if_match: IfMatch = None, dry_run: DryRun = False) -> CarefulRequest:
    return CarefulRequest(f"{request.method} {request.url.path}", key, if_match, dry_run)


Careful = Annotated[CarefulRequest, Depends(_given)]
