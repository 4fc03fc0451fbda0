"""Loads of pools: added up tick by tick as they would be all at once, each tick read once, what fails read again."""

from datetime import datetime, timedelta
from typing import Any, cast

import numpy as np
import pytest

from controlplane.alerts.conditions.kind import Job, Snapshot, Sources
from controlplane.alerts.conditions.pool_loads import LASTING, PoolLoads
from controlplane.alerts.queueing.pool_load import PoolLoad
from controlplane.contract.metrics import OUTPUT_TOKENS, PROMPT_TOKENS, RUNNING, WAITING

BACK_S = 600.0
TICKS = 60
ARRAYS = ("served", "tokens", "waiting", "running", "nodes")


class AJob:
    """As much of a job as loads are asked for by."""

    def __init__(self, pool: str, position: datetime) -> None:
        self.pool, self.position = pool, position

    def since(self, end: datetime) -> datetime:
        return self.position


class ASnapshot:
    """Pools, the serving nodes of some of them named."""

    def __init__(self, **nodes: list[str]) -> None:
        self._nodes = nodes

    def where(self, pool: str) -> dict[str, Any]:
        return {"pool": pool, **({"node": self._nodes[pool]} if pool in self._nodes else {})}


def loads(telemetry: Any) -> PoolLoads:
    return PoolLoads(cast(Sources, type("Wanted", (), {"telemetry": telemetry, "width_s": 5.0})()))


def cover(known: PoolLoads, seen: ASnapshot, end: datetime, *pools: str, new_s: float = 5.0) -> None:
    jobs = [cast("Job[Any]", AJob(pool, end - timedelta(seconds=new_s))) for pool in pools]
    known.cover(jobs, cast(Snapshot, seen), end, BACK_S)


def load(known: PoolLoads, pool: str, end: datetime) -> PoolLoad | None:
    return known.of(cast("Job[Any]", AJob(pool, end)), round(end.timestamp() / 5), BACK_S)


def same(one: PoolLoad | None, other: PoolLoad | None) -> bool:
    assert one is not None and other is not None
    assert (one.start_s, set(one.by_bucket)) == (other.start_s, set(other.by_bucket))
    for name in ARRAYS:
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)
    for name, values in one.by_bucket.items():
        np.testing.assert_array_equal(values, other.by_bucket[name], err_msg=name)
    return True


def tell(telemetry: Any, plant: Any, random: np.random.Generator, pool: str) -> None:
    """Five seconds in which each of three nodes may be silent."""
    for node in "abc":
        for metric in (RUNNING, WAITING, PROMPT_TOKENS, OUTPUT_TOKENS):
            if random.random() < 0.4:
                telemetry.add(metric.short, plant.now, float(random.integers(0, 50)), node=node, pool=pool)


@pytest.mark.parametrize("seed", range(5))
def test_tick_by_tick_is_as_all_at_once(telemetry: Any, plant: Any, seed: int) -> None:
    random, known, seen = np.random.default_rng(seed), loads(telemetry), ASnapshot(main=["a", "b"])
    for tick in range(TICKS):
        plant.pool = str(random.choice(["main", "other"]))
        tell(telemetry, plant, random, "main")
        tell(telemetry, plant, random, "other")
        plant.serve(5, rate=1.0, mix={"<=2k": 1.0} if tick > TICKS // 2 else None)
        cover(known, seen, plant.now, "main", "other")
    once = loads(telemetry)
    cover(once, seen, plant.now, "main", "other")
    assert all(same(load(known, pool, plant.now), load(once, pool, plant.now)) for pool in ("main", "other"))


def test_a_tick_asks_for_what_is_new_and_a_new_pool_for_its_past(telemetry: Any, plant: Any) -> None:
    known, seen, random = loads(telemetry), ASnapshot(), np.random.default_rng(1)
    for _ in range(3):
        tell(telemetry, plant, random, "main")
        plant.serve(5)
    cover(known, seen, plant.now, "main")
    telemetry.asked.clear()
    plant.serve(5)
    cover(known, seen, plant.now, "main")
    assert {(one.span.start, one.span.end) for one in telemetry.asked} == {
        (plant.now - timedelta(seconds=5), plant.now)
    }
    telemetry.asked.clear()
    cover(known, seen, plant.now, "main", "other")
    assert {str(one.where) for one in telemetry.asked if "main" in str(one.where)} == set()
    assert min(one.span.start for one in telemetry.asked) <= plant.now - timedelta(seconds=BACK_S)


def test_only_what_is_looked_at_is_kept(telemetry: Any, plant: Any) -> None:
    known, random = loads(telemetry), np.random.default_rng(1)
    for _ in range(round(BACK_S / 5) + 50):
        tell(telemetry, plant, random, "main")
        plant.serve(5)
        cover(known, ASnapshot(), plant.now, "main")
    past = known._pasts["main"]
    assert len(past.load) == past.seen.size == past.last - past.first == round(BACK_S / 5) + 1
    cover(known, ASnapshot(), plant.now)
    assert known._pasts == {}


def test_a_node_that_misses_reports_counts_for_a_minute(telemetry: Any, plant: Any) -> None:
    known = loads(telemetry)
    telemetry.add(WAITING.short, plant.now, 1.0, node="a", pool="main")
    for _ in range(LASTING + 3):
        plant.serve(5)
        cover(known, ASnapshot(), plant.now, "main")
    found = load(known, "main", plant.now)
    assert found is not None
    assert found.nodes.tolist() == [1.0] * LASTING + [0.0] * 3


def test_what_could_not_be_read_is_told_and_read_again(
    telemetry: Any, plant: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    known, random = loads(telemetry), np.random.default_rng(1)
    tell(telemetry, plant, random, "main")
    plant.serve(5)
    with monkeypatch.context() as broken:
        broken.setattr(telemetry, "scalars", None)
        cover(known, ASnapshot(), plant.now, "main")
        with pytest.raises(LookupError, match="the load of pool main"):
            load(known, "main", plant.now)
    plant.serve(5)
    cover(known, ASnapshot(), plant.now, "main")
    once = loads(telemetry)
    cover(once, ASnapshot(), plant.now, "main")
    assert same(load(known, "main", plant.now), load(once, "main", plant.now))
