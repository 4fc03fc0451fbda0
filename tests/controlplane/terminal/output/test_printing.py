"""Records: a line a field, with its unit; what a field holds stands under it."""

from datetime import UTC, datetime

from controlplane.terminal.output.printing import record_lines


def test_a_record_is_a_line_a_field_without_what_is_absent() -> None:
    lines = record_lines(
        {
            "id": 3,
            "made_at": datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
            "window_s": 0.25,
            "enabled": True,
            "share": 0.123456,
            "nothing": None,
            "none": {},
            "matchers": {"pool": "chat", "long_name": "x\ny"},
            "limits": [{"metric": "ttft", "limit_s": 2}, {"metric": "itl"}],
            "nodes": ["a", "b"],
            "rate_per_s": 3.401,
            "workload": "friday",
            "workload_s": 300,
        }
    )
    assert list(lines) == [
        "id          3",
        "made        2026-01-02 03:04:05Z",
        "window      250 ms",
        "enabled     yes",
        "share       0.1235",
        "matchers",
        "  pool       chat",
        "  long name  x y",
        "limits",
        "  - metric  ttft",
        "    limit   2.00 s",
        "  - metric  itl",
        "nodes       a, b",
        "rate per s  3.401",
        "workload    friday",
        "workload s  300 s",
    ]
