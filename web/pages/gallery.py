"""What the gallery draws: charts of made-up values, always the same ones."""

from typing import Any

from web.drawing.line_chart import Line, Mark, drawn

STEP_S = 5
SPAN_S = 300


def charts() -> dict[str, dict[str, Any]]:
    """Contexts of components/line_chart.html, by what they show: a change with its marks, a gap, and no data."""
    before, after = range(40), range(40, 60)
    bases = {"p50": 0.08, "p95": 0.2, "p99": 0.4}
    slower = [
        Line(name, [*((5.0 * at, base + at % 3 / 100) for at in before), *((5.0 * at, 2.2 * base) for at in after)])
        for name, base in bases.items()
    ]
    gap = [Line(line.name, [at for at in line.points if not 100 < at[0] < 160]) for line in slower]
    marks = [
        Mark(100, "rollout", "rollout 3 started", "revision 7 to pool chat"),
        Mark(200, "alert", "alert 1 fired", "ttft p99 is 2.2 times what it was"),
        Mark(215, "resolved", "alert 1 resolved", "it is as it was"),
    ]
    return {
        "A change": _context(slower, marks),
        "A gap, coarse": _context(gap, []) | {"accuracy": "± 60 %: from /metrics buckets"},
        "Nothing": _context([], []) | {"count": 0},
    }


def _context(lines: list[Line], marks: list[Mark]) -> dict[str, Any]:
    chart = drawn(lines, 0, SPAN_S, STEP_S, marks)
    return {"chart": chart, "metric": "ttft", "span": "5m", "count": 60, "accuracy": "", "left_out": ""}
