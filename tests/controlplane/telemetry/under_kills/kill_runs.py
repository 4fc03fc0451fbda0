"""A script that is killed again and again, with the power going at some of the kills."""

import random
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks.power_loss.disk import Cut
from benchmarks.power_loss.recording import Recording
from controlplane.db.database import Database
from tests.made_tables import create_tables

ROOT = Path(__file__).parents[4]


class Killed(NamedTuple):
    """The database as the last kill left it, the numbers that the script said were acknowledged, and how many there
    are in all."""

    url: str
    acknowledged: set[int]
    last: int


def run_and_kill(
    folder: Path, script: Path, kills: Sequence[Cut | None], *, numbers: int, within: int, again: int, seed: int
) -> Killed:
    """Run `script DATABASE FIRST LAST`, which prints each number as it is acknowledged, once for each kill.

    kills: what is lost of the writes that no fsync covers; None: nothing, the machine stays up. A run has so many
    `numbers`, is killed within the first `within`, and begins `again` before what is known to be acknowledged.
    """
    data = folder / "data"
    data.mkdir()
    url = f"sqlite:///{data / 'tailwright.db'}"
    database = Database(url)
    create_tables(database)
    database.close()
    recording = Recording(data, folder / "disk")
    rng = random.Random(seed)
    acknowledged: set[int] = set()
    first = 0
    for cut in kills:
        command = [sys.executable, str(script), url, str(first), str(first + numbers)]
        environment = {"PYTHONPATH": str(ROOT), **recording.environment()}
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT, env=environment) as child:
            assert child.stdout is not None
            fatal = rng.randrange(1, within)
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
        first = max(0, max(acknowledged) - again)
    return Killed(url, acknowledged, first + numbers)
