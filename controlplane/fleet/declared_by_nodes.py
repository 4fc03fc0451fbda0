"""Which knobs nodes declare beside the contract's own: looked up where a configuration names one."""

import json
from collections.abc import Iterable

from pydantic import ValidationError
from sqlalchemy import String, cast
from sqlmodel import Session, col, select

from controlplane.contract.knobs import KNOBS
from controlplane.contract.reports.declared_knobs import DeclaredBySome, DeclaredKnob, by_some
from controlplane.fleet.tables import NodeRow


def declared_for(session: Session, names: Iterable[str], *, pool: str | None = None) -> DeclaredBySome:
    """What the nodes of the pool (of the fleet) declare; nothing is read where all `names` are the contract's own."""
    return {} if KNOBS.keys() >= set(names) else declared_by_nodes(session, pool=pool)


def declared_by_nodes(session: Session, *, pool: str | None = None, node: str | None = None) -> DeclaredBySome:
    """All that the nodes of the pool (of the fleet), or one node, declare; what thousands declare alike read once."""
    told = cast(col(NodeRow.effective)["declared"], String)
    query = select(told).where(col(NodeRow.effective).is_not(None)).distinct()
    if pool is not None:
        query = query.where(NodeRow.pool == pool)
    if node is not None:
        query = query.where(NodeRow.node == node)
    return by_some(_declared(text) for text in session.exec(query) if text is not None)


def _declared(text: str) -> dict[str, DeclaredKnob]:
    try:
        said = json.loads(text)
        return {name: DeclaredKnob.model_validate(knob) for name, knob in (said or {}).items()}
    except (ValueError, ValidationError, AttributeError):
        return {}  # Of an older version, whose form is not known any more: as good as nothing.
