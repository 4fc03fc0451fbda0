"""A hundred thousand requests that nobody should send, to real processes: no 5xx, no silence, none ends.

Ten times as many: `python benchmarks/chaos.py fuzz --requests 1000000`.
"""

import asyncio
from pathlib import Path

import pytest

from benchmarks.chaos_measures import fuzz
from benchmarks.vllm_measures.processes import Nursery

REQUESTS = 100_000


@pytest.mark.slow
@pytest.mark.clock
@pytest.mark.long
@pytest.mark.timeout(600)
def test_nothing_that_is_sent_breaks_a_process(tmp_path: Path) -> None:
    nursery = Nursery(tmp_path)
    try:
        outcome = asyncio.run(fuzz.run(nursery, REQUESTS, seed=2))
    finally:
        nursery.close()
    assert [fault.told for fault in outcome.tally.faults] == []
    assert not any(outcome.ends.values())
    assert outcome.tally.sent == pytest.approx(REQUESTS, rel=0.01)
    answered = {name: kinds["2xx"] for name, kinds in outcome.tally.answers.items()}
    assert min(answered.values()) > 0, answered
