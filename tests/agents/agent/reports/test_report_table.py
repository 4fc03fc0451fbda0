"""A report's table is the same from report to report, so that the service reads it once."""

from agents.agent.reports.report_table import RENEWED_AFTER, ReportTable
from controlplane.contract import metrics


def test_names_keep_their_places_whatever_comes_later() -> None:
    table = ReportTable()
    table.begin()
    assert [table.metric(metrics.TTFT), table.metric(metrics.E2E), table.metric(metrics.TTFT)] == [0, 1, 0]
    assert [table.labels({"a": "1"}), table.labels({}), table.labels({"a": "2"}), table.labels({"a": "1"})] == [
        0,
        1,
        2,
        0,
    ]
    before = table.metrics, table.label_sets
    table.begin()
    table.labels({"a": "3"})
    table.metric(metrics.RUNNING)
    assert table.metrics[:2] == before[0] and table.label_sets[:3] == before[1]
    assert table.metrics[2] == (metrics.RUNNING.name, metrics.MetricKind.GAUGE)
    assert table.label_sets[3] == {"a": "3"}


def test_what_is_gone_is_forgotten_in_the_end() -> None:
    table = ReportTable()
    for revision in range(RENEWED_AFTER + 1):
        table.begin()
        table.labels({"revision": str(revision)})
        assert len(table.label_sets) == revision % RENEWED_AFTER + 1
    assert table.label_sets == ({"revision": str(RENEWED_AFTER)},)
