"""Calls of hooks as a queue: what is due, leased to one caller at a time, and what came of it.

Guarantees: of several callers exactly one makes a call, in whichever replica; one whose caller died is due again. What
is answered after the rollout has moved on changes nothing. A hook that has said halt is not overruled by its own
silence.
"""

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from sqlalchemy import ColumnElement
from sqlmodel import Session, col, select, update

from controlplane import ledger
from controlplane.contract.changes.hooks import HookKind, HookState
from controlplane.contract.retry import doubling_s
from controlplane.db.database import Database
from controlplane.db.living_processes import LivingProcesses, is_free
from controlplane.rollouts.hooks.tables import RolloutHookCallRow, RolloutHookRow
from controlplane.rollouts.tables import RolloutRow

LEASE_S = 90.0
"""Longer than any attempt may take."""
AGAIN_S = 60.0
"""A hook that halts, or that is silent and waited for, is asked again after this."""
LONGEST_PAUSE_S = 30.0

Answer = tuple[HookState | None, str]
"""What was answered, None for nothing, and why."""


@dataclass(frozen=True)
class Lease:
    """A call that is this caller's. url, secret: encrypted."""

    call_id: int
    hook_id: int
    kind: HookKind
    attempt: int
    body: str
    key: str
    timeout_s: float
    retries: int
    url: str = field(repr=False)
    secret: str | None = field(repr=False)


class HookQueue:
    """sole: no other process is over this database."""

    def __init__(self, database: Database, *, sole: bool = False) -> None:
        self._database = database
        self._living = LivingProcesses(database, sole=sole)

    def due(self, now: datetime, most: int) -> list[tuple[int, int]]:
        """Calls with their hooks, by number, the oldest first."""
        self._living.enter()
        with self._database.read_session() as session:
            query = select(RolloutHookCallRow.id, RolloutHookCallRow.hook_id).where(_is_due(now))
            query = query.where(self._is_free(session, now)).order_by(col(RolloutHookCallRow.id)).limit(most)
            return [(number or 0, hook_id) for number, hook_id in session.exec(query)]

    def lease(self, call_id: int, now: datetime) -> Lease | None:
        """None where another caller was faster, or the hook is no more."""
        with self._database.session() as session:
            statement = (
                update(RolloutHookCallRow)
                .where(col(RolloutHookCallRow.id) == call_id, _is_due(now), self._is_free(session, now))
                .values(
                    leased_until=now + timedelta(seconds=LEASE_S),
                    leased_by=self._living.number,
                    attempts=col(RolloutHookCallRow.attempts) + 1,
                )
                .execution_options(synchronize_session=False)
            )
            if session.exec(statement).rowcount != 1:
                return None
            call = session.get_one(RolloutHookCallRow, call_id)
            hook = session.get(RolloutHookRow, call.hook_id)
            if hook is None:
                call.next_attempt_at = call.leased_until = None
                session.add(call)
                return None
            return Lease(
                call_id,
                call.hook_id,
                HookKind(call.kind),
                call.attempts,
                call.body,
                f"rollout-{call.rollout_id}-hook-{call.hook_id}-step-{call.step}",
                hook.timeout_s,
                hook.retries,
                hook.url or "",
                hook.secret,
            )

    def record(self, lease: Lease, answer: Answer, now: datetime) -> None:
        """Write what came of a lease; the ledger hears of all but that another event was taken."""
        with self._database.session() as session:
            call = session.get_one(RolloutHookCallRow, lease.call_id, with_for_update=True)
            if call.attempts != lease.attempt:
                return  # Its lease has ended, and another caller is at it.
            row = session.get_one(RolloutRow, call.rollout_id)
            before = (call.state, call.reason)
            _take(call, lease, answer, now)
            if lease.kind.asks and row.step != call.step:
                call.next_attempt_at = None
            session.add(call)
            answered = HookState(call.state)
            taken = answered is HookState.GO and lease.kind is HookKind.EVENT
            if answered is not HookState.WAITING and (call.state, call.reason) != before and not taken:
                _note(session, row, call, lease, now)

    def _is_free(self, session: Session, now: datetime) -> ColumnElement[bool]:
        call = RolloutHookCallRow
        return is_free(col(call.leased_until), col(call.leased_by), now, self._living.numbers(session))


def _is_due(now: datetime) -> ColumnElement[bool]:
    return col(RolloutHookCallRow.next_attempt_at).is_not(None) & (col(RolloutHookCallRow.next_attempt_at) <= now)


def _take(call: RolloutHookCallRow, lease: Lease, answer: Answer, now: datetime) -> None:
    state, reason = answer
    again_s: float | None = None
    if state is not None:
        call.failures, call.state, call.reason, call.answered_at = 0, state.value, reason, now
        again_s = AGAIN_S if state is HookState.HALT else None
    else:
        call.failures += 1
        again_s = doubling_s(call.failures, longest_s=LONGEST_PAUSE_S)
        halted, over = call.state == HookState.HALT.value, call.failures > lease.retries
        if over:
            again_s = AGAIN_S if lease.kind.asks else None
        if not halted:
            call.reason = reason
            call.state = HookState.SILENT.value if over else call.state
    call.leased_until = None
    call.next_attempt_at = None if again_s is None else now + timedelta(seconds=again_s)
    call.body = "" if again_s is None else call.body


def _note(session: Session, row: RolloutRow, call: RolloutHookCallRow, lease: Lease, now: datetime) -> None:
    went = "agrees" if lease.kind.asks else "was told"
    said = {HookState.GO.value: went, HookState.HALT.value: "wants it to wait"}.get(call.state, "does not answer")
    ledger.append(
        session,
        now,
        ledger.SERVICE,
        f"rollout.hook_{call.state}",
        f"rollout/{row.id}",
        f"hook {call.name} {said}{': ' if call.reason else ''}{call.reason}",
        pool=row.pool,
        hook=call.name,
        hook_kind=call.kind,
        attempts=call.attempts,
    )
