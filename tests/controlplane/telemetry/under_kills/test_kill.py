"""kill -9 at any moment, and the power going with it: what was acknowledged is there, and nothing is there twice, not
even after retries. `benchmarks/telemetry.py --section kills` does it at length, to a whole service and to agents."""

import importlib.util
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from benchmarks.power_loss.disk import Cut
from controlplane.db.database import Database
from controlplane.telemetry import Question, Span
from controlplane.telemetry.store import TelemetryStore
from tests.controlplane.telemetry.under_kills.kill_runs import run_and_kill
from tests.soak import soak

pytestmark = pytest.mark.slow

SCRIPT = Path(__file__).with_name("ingest_until_killed.py")
REPORTS = 300
KILLS: tuple[Cut | None, ...] = (None, Cut.NOTHING, Cut.TORN, Cut.SECTORS, None, None)[: soak(4, 6)]
"""What of the writes that no fsync covers is lost with each kill; None: the machine stays up, nothing is."""


def _script() -> Any:
    spec = importlib.util.spec_from_file_location("ingest_until_killed", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.soak
def test_killed_and_restarted_under_load(tmp_path: Path) -> None:
    script = _script()
    # The sender goes on a little before what it knows to be acknowledged, as a spool does.
    killed = run_and_kill(tmp_path, SCRIPT, KILLS, numbers=REPORTS, within=REPORTS // 2, again=20, seed=5)
    url, acknowledged, last = killed

    store = TelemetryStore(Database(url), script.clock)
    store.start()
    try:
        span = (script.START, script.START + timedelta(seconds=5 * last))

        def counted() -> tuple[dict[int, float], dict[int, int]]:
            requests = store.scalars(Question("requests", Span(*span), step_s=5))
            ttft = store.histograms(Question("ttft", Span(*span), step_s=5))

            def number(time: Any) -> int:
                return int((time - script.START).total_seconds() // 5)

            return (
                {number(time): value for one in requests for time, value in one.steps},
                {number(time): sketch.count for one in ttft for time, sketch in one.steps},
            )

        sums, sketches = counted()
        assert acknowledged and acknowledged <= set(sums)
        assert set(sums.values()) == {1.0} and set(sketches.values()) == {3} and set(sums) == set(sketches)
        outcomes = [script.ingest(store, number) for number in range(last)]
        assert all(outcomes[number] == (0, 2) for number in acknowledged)
        sums, sketches = counted()
        assert sums == dict.fromkeys(range(last), 1.0) and sketches == dict.fromkeys(range(last), 3)
        store.tick(script.clock() + timedelta(hours=1))
        assert counted() == (sums, sketches)
    finally:
        store.close()
