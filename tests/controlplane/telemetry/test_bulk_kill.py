"""kill -9 in the middle of a load, and the power going with it: what was acknowledged is there, and nothing twice."""

import random
import signal
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

from sqlmodel import SQLModel

from benchmarks.power_loss.disk import Cut
from benchmarks.power_loss.recording import Recording
from controlplane.db.database import Database
from controlplane.telemetry.store import TelemetryStore
from controlplane.telemetry.verify import verify
from tests.controlplane.telemetry.load_until_killed import SPACING, START, clock, part, parts_of

SCRIPT = Path(__file__).with_name("load_until_killed.py")
ROOT = Path(__file__).parents[3]
BUNDLES = 100
KILLS: tuple[Cut | None, ...] = (None, Cut.NOTHING, Cut.TORN, None)
"""What of the writes that no fsync covers is lost with each kill; None: the machine stays up, nothing is."""


def test_killed_in_the_middle_of_a_load(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    url = f"sqlite:///{folder / 'trimtab.db'}"
    database = Database(url)
    SQLModel.metadata.create_all(database.engine)
    database.close()
    recording = Recording(folder, tmp_path / "disk")
    rng = random.Random(6)
    acknowledged: set[int] = set()
    first = 0
    for cut in KILLS:
        command = [sys.executable, str(SCRIPT), url, str(first), str(first + BUNDLES)]
        environment = {"PYTHONPATH": str(ROOT), **recording.environment()}
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT, env=environment) as child:
            assert child.stdout is not None
            fatal = rng.randrange(1, BUNDLES // 4)
            for _, line in zip(range(fatal), child.stdout, strict=False):
                acknowledged.add(int(line))
            child.send_signal(signal.SIGKILL)
            # What it still said before it died was acknowledged as well; a last line may be cut off.
            rest = child.stdout.read()
            acknowledged.update(int(line) for line in rest[: rest.rfind("\n") + 1].split())
        if cut is None:
            recording.settle()
        else:
            recording.cut(rng, cut)
        first = max(0, max(acknowledged) - 5)  # A load that is begun again sends what it may have sent already.
    last = first + BUNDLES

    store = TelemetryStore(Database(url), clock)
    store.start()
    try:

        def counted() -> dict[int, float]:
            end = START + timedelta(seconds=5 * SPACING * 2 * last)
            (series,) = store.scalars("requests", START, end, step_s=5 * SPACING)
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
