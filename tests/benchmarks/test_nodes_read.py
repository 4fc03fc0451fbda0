"""The cost of reading nodes is measured on answers that hold them, beside one that does not."""

import pytest

from benchmarks.detection_measures.nodes_read import FIRST, METRICS, measure

pytestmark = pytest.mark.slow


def test_both_reads_are_measured() -> None:
    found = measure(pools=2, windows=FIRST + 2, seed=3)
    assert tuple(found) == METRICS and all(seconds > 0.0 for seconds in found.values())
