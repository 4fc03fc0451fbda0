"""Which worker takes which file: one that already has what the file's tests share, where there is one.

A stack, a browser, a database's server, a model to compare with: each worker starts its own at the first test that
wants it. So a file that wants what only another worker has is left to that one, as long as there are others.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import pytest
from xdist.scheduler import LoadFileScheduling

KEPT = "shared_out/wanted"
"""Where pytest's cache has what the files want: workers collect, and who shares out does not."""
START_S = {"stack": 8.0}
"""CPU of a start; of all others a second or two."""
ASKED_BY = {"postgresql": "postgres_url", "clickhouse": "embedded_clickhouse"}
"""Values of parameters for which a fixture asks another by its name."""


def note(items: Sequence[pytest.Item], shared: Collection[str]) -> None:
    """Nothing where pytest keeps nothing (`-p no:cacheprovider`)."""
    if items and (cache := getattr(items[0].config, "cache", None)) is not None:
        cache.set(KEPT, wanted_by_file(items, shared))


def wanted_by_file(items: Iterable[pytest.Item], shared: Collection[str]) -> dict[str, list[str]]:
    """Of each file, what it wants that outlives it: fixtures of a session, and those named in `shared`."""
    found: dict[str, set[str]] = {}
    for item in items:
        wanted = found.setdefault(file_of(item.nodeid), set())
        if not isinstance(item, pytest.Function):
            continue
        for name, definitions in item._fixtureinfo.name2fixturedefs.items():
            last = definitions[-1]
            if name in shared:
                wanted.add(name)
            elif last.baseid and last.scope == "session":
                wanted.add(f"{last.baseid}: {name}")
        params = item.callspec.params.values() if hasattr(item, "callspec") else ()
        wanted.update(ASKED_BY[one] for one in params if isinstance(one, str) and one in ASKED_BY)
    return {file: sorted(wanted) for file, wanted in found.items() if wanted}


def file_of(nodeid: str) -> str:
    return nodeid.split("::", 1)[0]


def next_file(waiting: Iterable[str], wanted: Mapping[str, Collection[str]], own: set[str], others: set[str]) -> str:
    """The first of those for which this worker has most, and others have least that it would have to start."""
    elsewhere = others - own

    def started_s(file: str) -> float:
        of = wanted.get(file)
        if not of:
            return 0.0
        return sum(cost(one) for one in elsewhere.intersection(of)) - sum(cost(one) for one in own.intersection(of))

    return min(waiting, key=started_s)


def cost(program: str) -> float:
    return START_S.get(program, 1.0)


class ByWhatIsThere(LoadFileScheduling):
    """Files in their order, but for what `next_file` says."""

    def __init__(self, config: pytest.Config, log: Any = None) -> None:
        super().__init__(config, log)
        self._wanted: dict[str, list[str]] = {}
        self._has: dict[Any, set[str]] = {}

    def schedule(self) -> None:
        cache = getattr(self.config, "cache", None)
        self._wanted = {} if cache is None else cache.get(KEPT, {})
        super().schedule()

    def _assign_work_unit(self, node: Any) -> None:
        own = self._has.setdefault(node, set())
        others = set[str]().union(*(has for worker, has in self._has.items() if worker is not node))
        file = next_file(self.workqueue, self._wanted, own, others)
        own.update(self._wanted.get(file, ()))
        self.workqueue.move_to_end(file, last=False)
        super()._assign_work_unit(node)
