"""What is read of hosts: levels before and during, and since when."""

from datetime import UTC, datetime, timedelta

from controlplane.alerts.diagnosis.host_readings import host_readings
from controlplane.contract import metrics
from controlplane.contract.metrics import Metric
from controlplane.telemetry import Span
from tests.controlplane.telemetry.fake_reader import FakeReader

ONSET = datetime(2030, 1, 1, 12, 0, tzinfo=UTC)
BEFORE, DURING = Span(ONSET - timedelta(seconds=60), ONSET), Span(ONSET, ONSET + timedelta(seconds=30))


def told(reader: FakeReader, metric: Metric, node: str, values: dict[int, float]) -> None:
    for offset_s, value in values.items():
        reader.add(metric.short, ONSET + timedelta(seconds=offset_s), value, node=node, pool="chat")


def test_gauges_are_meant_sums_are_rates_and_the_change_has_a_time() -> None:
    reader = FakeReader()
    told(reader, metrics.HOST_OTHER_CPU, "a", {-20: 0.1, -15: 0.3, -10: 0.2, -5: 0.9, 0: 0.9, 5: 0.8, 10: 1.0})
    told(reader, metrics.HOST_MAJOR_FAULTS, "a", {-15: 10.0, -10: 0.0, 0: 500.0, 5: 1500.0})
    told(reader, metrics.HOST_STEAL, "b", {0: 0.5})
    found = host_readings(reader, {"pool": "chat"}, BEFORE, DURING)
    other, faults = found["a"]["host_other_cpu"], found["a"]["host_major_faults"]
    assert other.before is not None and abs(other.before - 0.2) < 1e-9  # The window before the onset is neither's.
    assert other.during is not None and abs(other.during - 0.9) < 1e-9
    assert other.since == ONSET - timedelta(seconds=5)
    assert (faults.before, faults.during, faults.since) == (1.0, 200.0, ONSET + timedelta(seconds=5))
    steal = found["b"]["host_steal"]
    assert (steal.before, steal.during, steal.since) == (None, 0.5, None)
    assert "host_steal" not in found["a"]


def test_reasons_add_up_and_the_last_xid_counts() -> None:
    reader = FakeReader()
    told(reader, metrics.GPU_THROTTLE_REASON, "a", {-30: 1.0, 0: 64.0, 5: 0.0, 10: 4.0})
    told(reader, metrics.GPU_XID, "a", {-30: 0.0, 0: 31.0, 5: 79.0, 10: 0.0})
    found = host_readings(reader, {"pool": "chat"}, BEFORE, DURING)["a"]
    assert (found["gpu_throttle_reason"].before, found["gpu_throttle_reason"].during) == (1.0, 68.0)
    assert (found["gpu_xid"].before, found["gpu_xid"].during) == (0.0, 79.0)
