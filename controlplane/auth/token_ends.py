"""A token's end is told in time: an entry in the ledger, once, which notices to people follow."""

from datetime import datetime, timedelta

from sqlmodel import Session, col, select

from controlplane import ledger
from controlplane.auth import store
from controlplane.auth.tables import TokenRow
from controlplane.ledger.tables import LedgerRow

BEFORE = timedelta(days=14)
"""As certificates are (TailwrightCertificateEnds)."""
PERIOD_S = 600.0
ENDS_SOON = "token.ends_soon"


def tell(session: Session, now: datetime) -> None:
    """Of each token that ends within `BEFORE` and has half of its life behind it: one that was made for a week is told
    of in the middle of it. Tokens of nodes renew themselves."""
    ending = select(TokenRow).where(
        col(TokenRow.node).is_(None), store.lives(now), col(TokenRow.expires_at) <= now + BEFORE
    )
    due = [row for row in session.exec(ending.order_by(col(TokenRow.id))) if _is_late(row, now)]
    if not due:
        return
    subjects = {f"token/{row.id}": row for row in due}
    told = select(LedgerRow.subject).where(col(LedgerRow.kind) == ENDS_SOON, col(LedgerRow.subject).in_(list(subjects)))
    for subject in session.exec(told):
        subjects.pop(subject, None)
    for subject, row in subjects.items():
        message = f"token {row.name!r} ends on {row.expires_at:%Y-%m-%d}; make another before: tailwright tokens create"
        ledger.append(session, now, ledger.SERVICE, ENDS_SOON, subject, message, owner=row.owner)


def _is_late(row: TokenRow, now: datetime) -> bool:
    assert row.expires_at is not None  # It was asked for.
    return row.expires_at - now <= now - row.created_at
