"""What reports that are taken in together are answered by: read in a few statements, before the first of them."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sqlmodel import Session, col, select

from controlplane.auth.tables import TokenRow
from controlplane.fleet.opamp.going_on import GoingOn
from controlplane.fleet.opamp.known_uids import KnownUids
from controlplane.fleet.opamp.rotation import TokenState
from controlplane.fleet.tables import NodeRow
from controlplane.fleet.wishes import Wishes

if TYPE_CHECKING:
    from controlplane.fleet.opamp.session import Asked


class ReadAhead:
    """Of one session, for these reports.

    Nodes are locked by rising name, as all who change several of them do: nobody waits for another in a circle.
    """

    def __init__(self, session: Session, asked: Sequence["Asked"]) -> None:
        self._session = session
        self.wishes = Wishes(session)
        self.uids = KnownUids(session, {one.report.instance_uid for one in asked})
        self.going_on = GoingOn(session, asked if len(asked) > 1 else ())
        self._nodes: dict[str, NodeRow] = {}
        if nodes := self.going_on.of_others(asked):
            rows = select(NodeRow).where(col(NodeRow.node).in_(nodes)).order_by(col(NodeRow.node)).with_for_update()
            self._nodes = {row.node: row for row in session.exec(rows)}
        ids = {one.principal.token_id for one in asked} - {None}
        tokens = select(TokenRow.id, TokenRow.replaces, TokenRow.created_at).where(col(TokenRow.id).in_(ids))
        self._tokens = {number: TokenState(*state) for number, *state in session.exec(tokens)}

    def node(self, name: str | None) -> NodeRow | None:
        """This node's row, also where a report before has made it."""
        if name is None:
            return None
        row = self._nodes.get(name)
        return self._session.get(NodeRow, name) if row is None else row

    def token(self, number: int | None) -> TokenState | None:
        """As it was before the first report."""
        return self._tokens.get(number)
