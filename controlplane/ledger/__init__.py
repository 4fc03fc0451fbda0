"""The ledger: one append-only record of everything that was done to the fleet, and why."""

from controlplane.ledger.actor import SERVICE, Actor
from controlplane.ledger.recent import Recent
from controlplane.ledger.store import append, entries, since

__all__ = ["SERVICE", "Actor", "Recent", "append", "entries", "since"]
