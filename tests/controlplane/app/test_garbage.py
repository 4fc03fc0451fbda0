"""In a process of its own: what is set holds for all of a process."""

import subprocess
import sys

PROGRAM = """
import gc, weakref
from controlplane.app import garbage

class Ring:
    pass

garbage.settle()
assert gc.isenabled() and gc.get_freeze_count() > 1_000, gc.get_freeze_count()
assert gc.get_threshold() == (garbage.YOUNG, garbage.MIDDLE, garbage.FULL)
ring = Ring()
ring.itself = ring
died = weakref.ref(ring)
del ring
kept = []
while died() is not None:
    kept.append([])
    assert len(kept) < 100 * garbage.YOUNG, "a cycle was never collected"
full = gc.get_stats()[2]["collections"]
kept += [[] for _ in range(70 * garbage.YOUNG)]
assert gc.get_stats()[2]["collections"] == full, "a full collection, for so few objects"
"""


def test_young_cycles_are_collected_and_full_collections_are_rare() -> None:
    subprocess.run([sys.executable, "-c", PROGRAM], check=True, timeout=60)
