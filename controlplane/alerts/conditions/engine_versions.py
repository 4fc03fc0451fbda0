"""New versions of a pool's engines, from the ledger's entries of nodes to what they mean for baselines. Pure.

Nobody has measured what another version does, so that nothing before it tells what is normal now: baselines begin anew.
While an upgrade goes from node to node they begin anew with each; it is told once, by the first.
"""

from collections.abc import Iterable
from dataclasses import replace

from controlplane.alerts.windows.pool_record import Move
from controlplane.contract.bodies.ledger import LedgerEntry

KIND = "node.engine_version"


def version_moves(entries: Iterable[LedgerEntry]) -> dict[str, list[Move]]:
    """By pool, oldest first. entries: of `KIND`, oldest first."""
    found: dict[str, list[Move]] = {}
    for entry in entries:
        pool, version = str(entry.evidence.get("pool") or ""), str(entry.evidence.get("version") or "")
        if not pool or not version:
            continue
        moves, at_s = found.setdefault(pool, []), entry.time.timestamp()
        if moves and moves[-1].engine == version:
            moves[-1] = replace(moves[-1], at_s=at_s)
        else:
            moves.append(Move(-entry.id, at_s, None, version))
    return found
