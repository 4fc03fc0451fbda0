"""The ledger: one append-only record of everything that was done to the fleet, and why."""

from controlplane.ledger.store import SERVICE, append, entries, since

__all__ = ["SERVICE", "append", "entries", "since"]
