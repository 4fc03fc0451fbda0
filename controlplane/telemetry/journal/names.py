"""Ids of metrics and of label sets: every distinct one has one, metrics for good, label sets while they are in use.

A metric's id stands for its name and its kind. Rows of frames are keyed by the labels' id alone, so that there are few
of them however many metrics there are; each label set knows its fleet set (the same without `node`) and the block of
nodes that its node belongs to.

Guarantee: the index in memory only ever holds what is committed. Another replica may have added names in the meantime:
what is not found here is looked up in the database, and so is a set that was not marked as used for a while
(`label_use`): it may be gone, and comes back under another id. Beyond the limits a set, or a sender's own metric, gets
no id: its points are refused one by one, and nothing else is.
"""

import threading
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
import orjson
from sqlalchemy import Connection
from sqlmodel import Session

from controlplane.contract.metrics import BY_NAME, MetricKind
from controlplane.telemetry.journal import label_use, name_rows
from controlplane.telemetry.journal.name_rows import LabelSet, MetricKey
from controlplane.telemetry.values.columns import Ids, Ints, Table
from controlplane.telemetry.values.timespan import to_ns

MAX_LABEL_SETS = 2_000_000
MAX_PER_TENANT = 20_000
MAX_OWN_METRICS = 1_000
PARSED = 100_000
"""Label sets whose text is kept in memory as well."""
REFUSED = -1


class Resolved(NamedTuple):
    """The ids of a table's metrics and label sets, by place; REFUSED where there is none. `until_ns`: after that its
    sets want another look."""

    metric: Ids
    labels: Ids
    until_ns: int = 0


@dataclass
class Learnt:
    """What memory may take in once the transaction has succeeded."""

    metrics: dict[MetricKey, int] = field(default_factory=dict)
    sets: dict[int, LabelSet] = field(default_factory=dict)
    tables: dict[Table, Resolved] = field(default_factory=dict)


class Resolution(NamedTuple):
    """One `Resolved` for each table that was asked for; hand `learnt` to `Names.learn` after the commit."""

    of: list[Resolved]
    learnt: Learnt


class Names:
    """Thread-safe; `resolve` is for one thread at a time."""

    def __init__(
        self,
        max_label_sets: int = MAX_LABEL_SETS,
        max_per_tenant: int = MAX_PER_TENANT,
        max_own_metrics: int = MAX_OWN_METRICS,
    ) -> None:
        self.max_label_sets = max_label_sets
        self.max_per_tenant = max_per_tenant
        self.max_own_metrics = max_own_metrics
        self._lock = threading.Lock()
        self._metrics: dict[MetricKey, int] = {}
        self._sets: dict[int, int] = {}
        self._tenants: Counter[str] = Counter()
        self._tenant_of: dict[int, str] = {}
        self._fleet: Ids = np.full(1024, REFUSED, np.int32)
        self._block: Ids = np.full(1024, REFUSED, np.int32)
        self._used: Ints = np.zeros(1024, np.int64)
        self._loaded_to = 0
        self._parsed: dict[int, Mapping[str, str]] = {}
        self._resolved: WeakKeyDictionary[Table, Resolved] = WeakKeyDictionary()

    def __len__(self) -> int:
        """Label sets known."""
        return len(self._sets)

    # -- metrics -------------------------------------------------------------------------------------------------

    def metrics(self) -> set[MetricKey]:
        with self._lock:
            return set(self._metrics)

    def metric_id(self, name: str, kind: MetricKind) -> int | None:
        return self._metrics.get((name, kind))

    # -- label sets ----------------------------------------------------------------------------------------------

    def labels(self, connection: Connection, ids: Iterable[int]) -> dict[int, Mapping[str, str]]:
        """The labels of sets, by id."""
        wanted = list(ids)
        with self._lock:
            found = {number: self._parsed[number] for number in wanted if number in self._parsed}
        missing = sorted({number for number in wanted if number not in found})
        if missing:
            parsed = {number: orjson.loads(text) for number, text in self._fetch(connection, missing).items()}
            found.update(parsed)
            with self._lock:
                if len(self._parsed) + len(parsed) > PARSED:
                    self._parsed.clear()
                self._parsed.update(parsed)
        return {number: found[number] for number in wanted}

    def fleet(self, connection: Connection, ids: Ids) -> Ids:
        """The fleet sets of sets."""
        self._know(connection, ids)
        return self._fleet[ids]

    def blocks(self, connection: Connection, ids: Ids) -> Ids:
        """The blocks of nodes that sets belong to; 0 for those that name no node."""
        self._know(connection, ids)
        return self._block[ids]

    def blocks_of_nodes(self, connection: Connection, nodes: Iterable[str]) -> set[int]:
        """The blocks that these nodes belong to; a node that nobody has heard of has none."""
        return {number // name_rows.BLOCK_NODES for number in name_rows.nodes(connection, nodes).values()}

    def forget(self, session: Session, before_ns: int) -> None:
        """Forget the sets that were marked before, as far as is known here, and are gone from the database."""
        with self._lock:
            unused = np.flatnonzero((self._fleet != REFUSED) & (self._used < before_ns)).tolist()
        if not unused:
            return
        marks = label_use.marks(session, unused)
        gone = set(unused) - marks.keys()
        with self._lock:
            for number, used_ns in marks.items():
                self._used[number] = max(int(self._used[number]), used_ns)
            if gone:
                self._sets = {key: number for key, number in self._sets.items() if number not in gone}
            for number in gone:
                self._fleet[number] = REFUSED
                self._parsed.pop(number, None)
                if tenant := self._tenant_of.pop(number, ""):
                    self._tenants[tenant] -= 1

    # -- writing -------------------------------------------------------------------------------------------------

    def load(self, connection: Connection) -> None:
        """Everything the database has that is newer than what is known."""
        metrics = name_rows.all_metrics(connection)
        sets = {one.key: one for one in name_rows.newer_label_sets(connection, self._loaded_to)}
        self.learn(Learnt(metrics, sets))
        self._loaded_to = max(self._loaded_to, *(one.id for one in sets.values()), 0)

    def resolve(self, session: Session, tables: Sequence[Table], now: datetime) -> Resolution:
        """The ids of tables' names, made in the session's transaction where they are missing, and marked as used."""
        learnt, now_ns = Learnt(), to_ns(now)
        known = [self._known(table, now_ns) for table in tables]
        unknown = list(dict.fromkeys(table for table, found in zip(tables, known, strict=True) if found is None))
        if unknown:
            metrics = self._resolve_metrics(session, unknown, learnt)
            sets = self._resolve_sets(session, unknown, learnt, now_ns)
            for table in unknown:
                learnt.tables[table] = Resolved(
                    np.array([metrics.get(key, REFUSED) for key in table.metrics], np.int32),
                    np.array([sets.get(text, REFUSED) for text in table.labels], np.int32),
                    label_use.until_ns(table.labels, now_ns),
                )
        return Resolution([found or learnt.tables[table] for table, found in zip(tables, known, strict=True)], learnt)

    def learn(self, learnt: Learnt) -> None:
        """Take in what is committed."""
        if not (learnt.metrics or learnt.sets or learnt.tables):
            return
        with self._lock:
            self._metrics.update(learnt.metrics)
            self._learn_sets(learnt.sets)
            for table, resolved in learnt.tables.items():
                # What is refused may be let in by another replica, or after a restart with other limits.
                if not (resolved.metric == REFUSED).any() and not (resolved.labels == REFUSED).any():
                    self._resolved[table] = resolved

    def why_refused(self, table: Table, resolved: Resolved, metric: int, labels: int) -> str:
        """The message for a point of a table whose metric or label set got no id."""
        if resolved.metric[metric] == REFUSED:
            name = table.metrics[metric][0]
            most = f"{self.max_own_metrics} metric names of senders' own"
            return f"{name}: over {most} are there already; send fewer names, and what differs as attributes"
        tenant = name_rows.new_set(table.labels[labels]).tenant
        of_tenant = f", or {self.max_per_tenant} of tenant {tenant!r}" if tenant else ""
        return f"over {self.max_label_sets} distinct label sets{of_tenant}; take labels with fewer values"

    # -- inside --------------------------------------------------------------------------------------------------

    def _resolve_metrics(self, session: Session, tables: Sequence[Table], learnt: Learnt) -> dict[MetricKey, int]:
        wanted = dict.fromkeys(key for table in tables for key in table.metrics)
        found = {key: self._metrics[key] for key in wanted if key in self._metrics}
        missing = [key for key in wanted if key not in found]
        if missing:
            learnt.metrics = name_rows.metrics(session, missing)
            own = sum(name not in BY_NAME for name, _ in {**self._metrics, **learnt.metrics})
            new = []
            for key in missing:
                if key not in learnt.metrics and (key[0] in BY_NAME or own < self.max_own_metrics):
                    own += key[0] not in BY_NAME
                    new.append(key)
            if new:
                learnt.metrics |= name_rows.make_metrics(session, new)
        return found | learnt.metrics

    def _known(self, table: Table, now_ns: int) -> Resolved | None:
        found = self._resolved.get(table)
        return found if found is not None and now_ns < found.until_ns else None

    def _resolve_sets(self, session: Session, tables: Sequence[Table], learnt: Learnt, now_ns: int) -> dict[str, int]:
        key_of = {text: name_rows.key_of(text) for text in dict.fromkeys(t for table in tables for t in table.labels)}
        ids = {key: number for key in key_of.values() if (number := self._marked(key, now_ns)) is not None}
        missing = {key: text for text, key in key_of.items() if key not in ids}
        if missing:
            learnt.sets = name_rows.used_label_sets(session, missing, now_ns)
            new = self._within_limits([text for key, text in missing.items() if key not in learnt.sets], learnt)
            if new:
                learnt.sets |= name_rows.make_label_sets(session, new, now_ns)
        ids |= {key: one.id for key, one in learnt.sets.items()}
        return {text: ids[key] for text, key in key_of.items() if key in ids}

    def _marked(self, key: int, now_ns: int) -> int | None:
        """The id of a set whose mark is young enough for it to be there for sure."""
        number = self._sets.get(key)
        return None if number is None or label_use.is_old(int(self._used[number]), now_ns) else number

    def _within_limits(self, texts: Sequence[str], learnt: Learnt) -> list[name_rows.NewSet]:
        """Those that there is still room for. The fleet set that comes with one takes room, but is never refused."""
        others = [one for key, one in learnt.sets.items() if key not in self._sets]
        total = len(self._sets) + len(others)
        tenants = Counter(one.tenant for one in others)
        kept = []
        for one in map(name_rows.new_set, texts):
            of_tenant = self._tenants[one.tenant] + tenants[one.tenant]
            if total < self.max_label_sets and (not one.tenant or of_tenant < self.max_per_tenant):
                total += 1
                tenants[one.tenant] += 1
                kept.append(one)
        return kept

    def _know(self, connection: Connection, ids: Ids) -> None:
        """See to it that these sets are in memory."""
        known = self._fleet
        inside = ids < len(known)
        if inside.all() and (known[ids] != REFUSED).all():
            return
        unknown = np.unique(np.concatenate([ids[~inside], ids[inside][known[ids[inside]] == REFUSED]]))
        self._fetch(connection, unknown.tolist())

    def _fetch(self, connection: Connection, ids: Sequence[int]) -> dict[int, str]:
        found = name_rows.label_sets_by_id(connection, ids)
        lost = [number for number in ids if number not in found]
        if lost:
            raise LookupError(f"label sets {lost[:10]} are in frames or pending rows, but not in telemetry_labels")
        with self._lock:
            self._learn_sets({one.key: one for one, _ in found.values()})
        return {number: text for number, (_, text) in found.items()}

    def _learn_sets(self, sets: Mapping[int, LabelSet]) -> None:
        if not sets:
            return
        highest = max(one.id for one in sets.values())
        if highest >= len(self._fleet):
            more = np.full(max(highest + 1 - len(self._fleet), len(self._fleet)), REFUSED, np.int32)
            self._used = np.concatenate([self._used, np.zeros(len(more), np.int64)])
            self._block = np.concatenate([self._block, more])
            self._fleet = np.concatenate([self._fleet, more])
        for one in sets.values():
            # The fleet set last: `_know` takes a set that has one for known.
            self._used[one.id] = max(int(self._used[one.id]), one.used_ns)
            self._block[one.id] = one.block
            self._fleet[one.id] = one.fleet_id
            before = self._sets.get(one.key)
            if one.tenant and before != one.id:
                if before is None or self._tenant_of.pop(before, None) is None:
                    self._tenants[one.tenant] += 1
                self._tenant_of[one.id] = one.tenant
            self._sets[one.key] = one.id
