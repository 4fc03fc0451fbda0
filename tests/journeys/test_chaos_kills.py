"""Kills of everything: nothing lost or doubled, no alarm lost, nothing unjudged; with PostgreSQL by `make long`.

At length: `python benchmarks/chaos.py kills --kills 1000`.
"""

from pathlib import Path

import pytest

from benchmarks.chaos_measures import kills
from benchmarks.chaos_measures.kill_world import KINDS, Kind
from benchmarks.vllm_measures.processes import Nursery
from tests.soak import soak

KILLS = soak(1, 10)
SEED = 10
"""Its first kill is a power cut of the service, after ten seconds of load."""


@pytest.mark.slow
@pytest.mark.soak
@pytest.mark.timeout(1200)
@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=[pytest.mark.long] if kind == "postgresql" else []) for kind in KINDS]
)
def test_what_was_promised_holds_whatever_is_killed(tmp_path: Path, kind: Kind) -> None:
    nursery = Nursery(tmp_path)
    try:
        outcome = kills.run(nursery, kind, KILLS, SEED)
    finally:
        nursery.close()
    assert {promise: found for promise, found in outcome.findings.items() if found} == {}
    assert outcome.kills.total() == KILLS
    assert outcome.figures["alarms"] >= 1 and outcome.figures["reports acknowledged"] > 100
