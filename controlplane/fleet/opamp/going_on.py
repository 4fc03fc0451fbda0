"""Reports that only go on from the one before them: read and written as columns, half of the work of reading each row
whole.

Guarantee: what is written and answered is what would be of the whole row. So is every report of a node that its own
connection holds by the same agent process, that says nothing of who it is, that does not say goodbye, and after whose
taking-in nothing but an offer can be due; all others are `session`'s. All rows, of both, are locked in one statement by
rising name: nobody waits for another in a circle.
"""

from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from sqlalchemy import bindparam, update
from sqlmodel import Session, col, select

from controlplane.contract.bodies.nodes import ConfigStatus, EffectiveConfig
from controlplane.fleet.node_views import TEXT
from controlplane.fleet.tables import NodeRow

if TYPE_CHECKING:
    from controlplane.fleet.opamp.session import Asked

_READ = (
    *(col(NodeRow.node), col(NodeRow.pool), col(NodeRow.role), col(NodeRow.override_revision)),
    *(col(NodeRow.cache_reset), col(NodeRow.instance_uid), col(NodeRow.sequence_num), col(NodeRow.connection)),
    *(col(NodeRow.config_hash), col(NodeRow.config_status), col(NodeRow.config_error), col(NodeRow.drift_since), TEXT),
)


class Held(NamedTuple):
    """What of a node's row its next report is held against. effective: as JSON."""

    node: str
    pool: str
    role: str
    override: int | None
    cache_reset: int
    instance_uid: str | None
    sequence_num: int
    connection: str | None  # None also where nobody holds it.
    config_hash: str
    config_status: str
    config_error: str
    drift_since: datetime | None
    effective: str | None


class GoingOn:
    """Of one session, for these reports. Nothing is read where none of them goes on."""

    def __init__(self, session: Session, asked: Sequence["Asked"]) -> None:
        self._session = session
        spoken_for = Counter(_spoken_for(one) for one in asked)
        self._alone = {node for one in asked if _goes_on(one) and spoken_for[node := one.principal.node] == 1}
        self._held: dict[str | None, Held] = {}
        if self._alone:
            every = select(*_READ).where(col(NodeRow.node).in_(spoken_for))  # type: ignore[call-overload]
            locked = every.order_by(col(NodeRow.node)).with_for_update()
            self._held = {row[0]: Held(*row) for row in session.execute(locked)}
        self._changed: dict[tuple[str, ...], list[dict[str, Any]]] = {}  # By the columns that change.
        self._dumped: dict[int, tuple[EffectiveConfig, dict[str, Any]]] = {}

    def held(self, asked: "Asked") -> Held | None:
        """Where the report goes on, what it goes on from."""
        node = asked.principal.node
        held = self._held.get(node) if node in self._alone else None
        if held is None or held.instance_uid != asked.report.instance_uid:
            return None
        return held if held.connection == asked.came.connection else None

    def of_others(self, asked: Sequence["Asked"]) -> set[str]:
        """The nodes whose rows are read whole."""
        return {node for one in asked if self.held(one) is None and (node := _spoken_for(one)) is not None}

    def change(self, node: str, values: dict[str, Any]) -> None:
        """values: by column, at `write`."""
        self._changed.setdefault(tuple(values), []).append({"of_node": node, **values})

    def dumped(self, config: EffectiveConfig) -> dict[str, Any]:
        """As JSON; of those that report alike it is one object."""
        if id(config) not in self._dumped:
            self._dumped[id(config)] = (config, config.model_dump(mode="json"))
        return self._dumped[id(config)][1]

    def write(self) -> None:
        for rows in self._changed.values():
            self._session.connection().execute(_WRITE, rows)


_WRITE = update(NodeRow).where(col(NodeRow.node) == bindparam("of_node"))


def _spoken_for(asked: "Asked") -> str | None:
    said = asked.report.description
    return asked.principal.node if said is None else said.node


def _goes_on(asked: "Asked") -> bool:
    """Whether the report says nothing that wants the whole row."""
    report = asked.report
    return (
        report.description is None
        and not report.disconnecting
        and not report.wants_instance_uid
        and asked.principal.node is not None
        and asked.came.connection is not None
        and (report.config is None or report.config.status is not ConfigStatus.FAILED)
    )
