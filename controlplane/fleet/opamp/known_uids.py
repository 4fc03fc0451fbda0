"""Which connected nodes speak by the `instance_uid`s that come in: read once for reports that are taken in together."""

from collections.abc import Iterable

from sqlmodel import Session, col, select

from controlplane.fleet.tables import NodeRow


class KnownUids:
    """Of these, as the database has them and as each report that was taken in since has left them."""

    def __init__(self, session: Session, uids: Iterable[str]) -> None:
        self._session = session
        self._asked = set(uids)
        self._held: dict[str, str | None] | None = None  # By node; None: nobody has asked yet.
        self._taken_in: dict[str, str | None] = {}

    def note(self, row: NodeRow) -> None:
        """This row's report has been taken in."""
        self._taken_in[row.node] = row.instance_uid if row.connected else None

    def is_anothers(self, row: NodeRow) -> bool:
        """Whether another connected node speaks by this one's, too."""
        if self._held is None:
            held = select(NodeRow.node, NodeRow.instance_uid).where(col(NodeRow.connected).is_(True))
            with self._session.no_autoflush:  # What is not written yet has been noted.
                self._held = dict(self._session.exec(held.where(col(NodeRow.instance_uid).in_(self._asked))).all())
        known = {**self._held, **self._taken_in}
        return any(uid == row.instance_uid and node != row.node for node, uid in known.items())
