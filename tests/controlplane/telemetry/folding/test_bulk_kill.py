"""kill -9 in the middle of a load, and the power going with it: what was acknowledged is there, and nothing twice."""

from datetime import timedelta
from pathlib import Path

import pytest

from benchmarks.power_loss.disk import Cut
from controlplane.db.database import Database
from controlplane.telemetry import Question, Span
from controlplane.telemetry.folding.verify import verify
from controlplane.telemetry.store import TelemetryStore
from tests.controlplane.telemetry.folding.load_until_killed import SPACING, START, clock, part, parts_of
from tests.controlplane.telemetry.under_kills.kill_runs import run_and_kill

pytestmark = pytest.mark.slow

SCRIPT = Path(__file__).with_name("load_until_killed.py")
BUNDLES = 100
KILLS: tuple[Cut | None, ...] = (None, Cut.NOTHING, Cut.TORN, None)
"""What of the writes that no fsync covers is lost with each kill; None: the machine stays up, nothing is."""


def test_killed_in_the_middle_of_a_load(tmp_path: Path) -> None:
    # A load that is begun again sends what it may have sent already.
    killed = run_and_kill(tmp_path, SCRIPT, KILLS, numbers=BUNDLES, within=BUNDLES // 4, again=5, seed=6)
    url, acknowledged, last = killed

    store = TelemetryStore(Database(url), clock)
    store.start()
    try:

        def counted() -> dict[int, float]:
            end = START + timedelta(seconds=5 * SPACING * 2 * last)
            (series,) = store.scalars(Question("requests", Span(START, end), step_s=5 * SPACING))
            return {round((at - START).total_seconds()) // (5 * SPACING): value for at, value in series.steps}

        found = counted()
        assert set(found.values()) == {1.0}
        assert {number for bundle in acknowledged for number in parts_of(bundle)} <= found.keys()
        for number in range(last):
            store.submit_bundle(b"".join(map(part, parts_of(number)))).result(60)
        assert counted() == dict.fromkeys(range(2 * last), 1.0)
        assert verify(Database(url), store.frames).findings.all == []
    finally:
        store.close()
