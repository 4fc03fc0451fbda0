"""Two days in compressed time: every hour that must be there is counted exactly, and nothing is kept beyond its age.

At length: `python benchmarks/chaos.py week`.
"""

import asyncio
from pathlib import Path

import pytest

from benchmarks.chaos_measures import week


@pytest.mark.long
@pytest.mark.timeout(900)  # Minutes of computing on a slow core.
def test_what_must_be_there_is_and_what_is_too_old_is_gone(tmp_path: Path) -> None:
    outcome = asyncio.run(week.run(tmp_path / "data", nodes=4, days=2, interval_s=900, seed=3))
    assert outcome.wrong == [] and not any(outcome.failures.values())
    assert outcome.reports == 4 * 2 * 96 and outcome.hours_checked > 100
    first, second = outcome.each
    assert sum(second.rows.values()) < 1.2 * sum(first.rows.values())
    assert second.oldest_h[3600] < 25.2 and second.oldest_h[5] < 3.2
