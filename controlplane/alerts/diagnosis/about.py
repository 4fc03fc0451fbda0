"""Which configuration and which engine an alert is about: those that served while it was slow. Reads only."""

from collections import Counter
from typing import Any

from sqlmodel import Session, col, select

from controlplane.alerts.diagnosis.arrival import NEGLIGIBLE
from controlplane.alerts.diagnosis.causes import Context
from controlplane.contract.bodies.nodes import NodeRole
from controlplane.fleet.tables import NodeRow

MOST_NAMED = 3


def about(session: Session, context: Context) -> dict[str, Any]:
    """revisions: number to its share of the requests since the onset; engines: version to how many serving nodes."""
    shares = {str(seen.number): round(seen.during_share, 3) for seen in context.revisions}
    served = {name: share for name, share in shares.items() if share >= NEGLIGIBLE}
    here = select(NodeRow.engine_version).where(
        NodeRow.pool == context.pool, NodeRow.role == NodeRole.SERVING.value, col(NodeRow.engine_version) != ""
    )
    engines = Counter(session.exec(here).all())
    return {"revisions": _by_most(served), "engines": _by_most(dict(engines))}


def in_words(found: dict[str, Any]) -> str:
    """As in " under revision 2 on vllm 0.32.0", empty where neither is known."""
    revisions, engines = (list(found[name])[:MOST_NAMED] for name in ("revisions", "engines"))
    text = f" under revision {' and '.join(revisions)}" if revisions else ""
    return text + (f" on {' and '.join(engines)}" if engines else "")


def _by_most(found: dict[str, Any]) -> dict[str, Any]:
    return dict(sorted(found.items(), key=lambda item: (-item[1], item[0])))
