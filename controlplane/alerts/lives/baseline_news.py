"""The ledger's entry for a baseline that has moved, or begun anew, because a judged rollout was accepted."""

from datetime import datetime

from sqlmodel import Session

from controlplane import ledger
from controlplane.alerts.windows.pool_record import Move

LEDGER_KIND = "alert.baseline_moved"


def tell_move(session: Session, rule_id: int, pool: str, metric: str, move: Move, now: datetime) -> None:
    """Write it in the caller's transaction: the one that stores the rule's evidence after the move."""
    factors = {f"p{100 * q:g}": move.factor(q) for q in sorted(move.shifts or {})}
    how = ", ".join(f"{name} x{factor:g}" for name, factor in factors.items())
    ledger.append(
        session,
        now=now,
        actor=ledger.SERVICE,
        kind=LEDGER_KIND,
        subject=f"alert-rule/{rule_id}",
        message=(
            f"rollout {move.rollout_id} was judged and accepted: the baseline of {metric} in pool {pool} "
            + (f"moved by what the verdict measured ({how})" if how else "begins anew, the verdict did not measure it")
        ),
        pool=pool,
        metric=metric,
        rollout_id=move.rollout_id,
        factors=factors,
    )
