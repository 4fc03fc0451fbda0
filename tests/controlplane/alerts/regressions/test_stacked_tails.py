"""Many windows at once are what they are one by one."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.alerts.regressions.stacked_tails import Stack
from controlplane.alerts.windows.history import Window, merged
from controlplane.alerts.windows.material import Tail
from controlplane.contract.histogram import AXIS_LENGTH
from controlplane.evidence.sketch import Sketch

METRIC = "prefill"
cells = st.dictionaries(st.integers(300, 320), st.integers(1, 9), max_size=5)
held = st.dictionaries(st.sampled_from(["a", "b"]), st.tuples(cells, st.integers(0, 3)), max_size=2)


def window(place: int, buckets: dict[str, tuple[dict[int, int], int]]) -> Window:
    tails = {}
    for name, (counted, zeros) in buckets.items():
        counts = np.zeros(AXIS_LENGTH, dtype=np.int64)
        for position, count in counted.items():
            counts[position] = count
        tails[name] = Tail.of(Sketch(counts=counts, zero_count=zeros, relative_error=0.02 + 0.01 * (place % 2)))
    return Window(5.0 * place, 1.0, {METRIC: tails} if tails else {})


@given(st.lists(held, max_size=8), st.integers(290, 330), st.data())
def test_all_together_are_as_one_by_one(
    made: list[dict[str, tuple[dict[int, int], int]]], at: int, data: st.DataObject
) -> None:
    windows = [window(place, buckets) for place, buckets in enumerate(made)]
    keep = np.array(data.draw(st.lists(st.booleans(), min_size=len(made), max_size=len(made))), dtype=bool)
    tables = np.random.default_rng(1).normal(size=(2, AXIS_LENGTH))
    for stack, part in ((Stack.of(windows, METRIC), windows), _kept(windows, keep)):
        assert list(stack.windows) == part
        assert list(stack.has_any) == [bool(one.tails) for one in part]
        assert set(stack.buckets) == {name for one in part for name in one.tails.get(METRIC, {})}
        for name, one in stack.buckets.items():
            tails = [part[place].tails[METRIC][name] for place in one.places]
            assert list(one.counts) == [tail.count for tail in tails]
            assert list(one.above(at)) == [tail.above(at) for tail in tails]
            whole = merged(part, METRIC, name)
            assert np.array_equal(one.merged.counts, whole.counts) and one.merged.zero_count == whole.zero_count
            counts, scores = one.scored(tables)
            for place, tail in enumerate(tails):
                alone = np.zeros(AXIS_LENGTH, dtype=np.int64)
                tail.add_to(alone)
                assert counts[place] == alone.sum()
                assert scores[:, place] == pytest.approx(tables @ alone)


def _kept(windows: list[Window], keep: np.ndarray) -> tuple[Stack, list[Window]]:
    return Stack.of(windows, METRIC).among(keep), [one for one, kept in zip(windows, keep, strict=True) if kept]


def test_of_nothing_there_is_nothing() -> None:
    empty = Stack.of([], METRIC)
    assert empty.buckets == {} and empty.has_any.size == 0
    assert Stack.of([Window(0.0, 1.0, {})], METRIC).among(np.array([True])).buckets == {}
