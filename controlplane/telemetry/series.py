"""Series ids: every distinct (metric, labels) has one, for good.

The index in memory only ever holds what is committed. Another replica may have added series in the meantime: ids and
keys that are not found here are looked up in the database.
"""

import threading
from collections.abc import Iterable, Mapping

import orjson
from sqlalchemy import Connection, select
from sqlalchemy.dialects.postgresql import insert as postgresql_insert
from sqlalchemy.dialects.sqlite import insert as sqlite_insert
from sqlmodel import Session, col

from controlplane.telemetry.labels import hash64
from controlplane.telemetry.tables import SeriesRow

Key = tuple[str, str]
CHUNK = 500
MAX_SERIES = 200_000


class SeriesIndex:
    """Thread-safe."""

    def __init__(self, max_series: int = MAX_SERIES) -> None:
        self.max_series = max_series
        self._lock = threading.Lock()
        self._ids: dict[Key, int] = {}
        self._labels: dict[int, Mapping[str, str]] = {}

    def __len__(self) -> int:
        return len(self._ids)

    def __contains__(self, key: Key) -> bool:
        return key in self._ids

    def metrics(self) -> set[str]:
        with self._lock:
            return {metric for metric, _ in self._ids}

    def learn(self, found: Mapping[Key, int]) -> None:
        """Take in committed series."""
        with self._lock:
            for key, number in found.items():
                self._ids[key] = number
                self._labels[number] = orjson.loads(key[1])

    def load(self, connection: Connection) -> None:
        """Everything the database has."""
        rows = connection.execute(select(col(SeriesRow.id), col(SeriesRow.metric), col(SeriesRow.labels)))
        self.learn({(metric, labels): number for number, metric, labels in rows if number is not None})

    def intern(self, session: Session, keys: Iterable[Key]) -> dict[Key, int]:
        """Ids of these keys, making those that are missing in the caller's transaction; `learn` them once committed.

        Keys beyond `max_series` are left out of the answer.
        """
        wanted = list(dict.fromkeys(keys))
        found = {key: self._ids[key] for key in wanted if key in self._ids}
        missing = [key for key in wanted if key not in found]
        room = max(0, self.max_series - len(self._ids))
        for start in range(0, len(missing), CHUNK):
            part = missing[start : start + CHUNK]
            found.update(_look_up(session, part))
            new = [key for key in part if key not in found][:room]
            room -= len(new)
            if new:
                values = [{"key": _hash(key), "metric": key[0], "labels": key[1]} for key in new]
                insert = sqlite_insert if session.get_bind().dialect.name == "sqlite" else postgresql_insert
                session.execute(insert(SeriesRow).values(values).on_conflict_do_nothing())
                found.update(_look_up(session, new))
        return found

    def labels(self, connection: Connection, numbers: Iterable[int]) -> dict[int, Mapping[str, str]]:
        """The labels of series ids."""
        wanted = list(numbers)
        missing = [number for number in wanted if number not in self._labels]
        for start in range(0, len(missing), CHUNK):
            chosen = col(SeriesRow.id).in_(missing[start : start + CHUNK])
            rows = connection.execute(
                select(col(SeriesRow.id), col(SeriesRow.metric), col(SeriesRow.labels)).where(chosen)
            )
            self.learn({(metric, labels): number for number, metric, labels in rows if number is not None})
        return {number: self._labels[number] for number in wanted}


def _look_up(session: Session, keys: list[Key]) -> dict[Key, int]:
    query = select(col(SeriesRow.id), col(SeriesRow.metric), col(SeriesRow.labels)).where(
        col(SeriesRow.key).in_([_hash(key) for key in keys])
    )
    wanted = set(keys)
    return {
        (metric, labels): number
        for number, metric, labels in session.execute(query)
        if number is not None and (metric, labels) in wanted
    }


def _hash(key: Key) -> int:
    return hash64("\0".join(key).encode())
