"""The cheap histogram is the library's own, value for value."""

from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Histogram, generate_latest
from prometheus_client.core import HistogramMetricFamily
from prometheus_client.registry import Collector

from agents.engine.core.cheap_histogram import BucketCounts

EDGES = (0.001, 0.01, 0.1, 1.0)


class _Shown(Collector):
    def __init__(self, counts: BucketCounts) -> None:
        self._counts = counts

    def collect(self):  # type: ignore[no-untyped-def]
        family = HistogramMetricFamily("seconds", "Seconds.", labels=["engine"])
        self._counts.add_to(family, ["0"])
        yield family


@settings(derandomize=True, deadline=None)
@given(st.lists(st.one_of(st.sampled_from(EDGES), st.floats(0, 5)), max_size=50), st.integers(0, 50))
def test_exposes_what_the_library_exposes(values: list[float], together: int) -> None:
    counts = BucketCounts(EDGES)
    counts.observe_all(values[:together])
    for value in values[together:]:
        counts.observe(value)
    ours, theirs = CollectorRegistry(), CollectorRegistry()
    ours.register(_Shown(counts))
    expected = Histogram("seconds", "Seconds.", ["engine"], buckets=EDGES, registry=theirs).labels("0")
    for value in values:
        expected.observe(value)
    shown = [line for line in generate_latest(theirs).decode().splitlines() if "_created" not in line]
    assert generate_latest(ours).decode().splitlines() == shown
