"""What the gallery draws of everything but lines over time: made-up values, always the same ones."""

from math import sin
from typing import Any

from web.drawing.sparkline import Baseline, sparkline
from web.drawing.waterfall import Request, waterfalls

STEP_S, SPAN_S = 10, 900


def drawings() -> dict[str, Any]:
    """The context of components/gallery_drawings.html."""
    return {"sparklines": _sparklines(), "waterfalls": _waterfalls()}


def _sparklines() -> dict[str, Any]:
    calm = [(float(time), 1.2 + 0.15 * sin(time / 40)) for time in range(0, SPAN_S, STEP_S)]
    risen = [(time, value * (1.4 if time > 600 else 1)) for time, value in calm]
    usual = Baseline(1.0, 1.2, 1.4)
    return {
        "as usual": sparkline("p99", calm, 0, SPAN_S, STEP_S, usual),
        "above": sparkline("p99", risen, 0, SPAN_S, STEP_S, usual),
        "a gap, no baseline": sparkline("p99", [at for at in calm if not 300 < at[0] < 500], 0, SPAN_S, STEP_S),
        "nothing": sparkline("p99", [], 0, SPAN_S, STEP_S),
    }


def _waterfalls() -> Any:
    usual = {"receive": 0.01, "tokenize": 0.02, "queue": 0.1, "prefill": 0.3, "decode": 0.9, "send": 0.05}
    requests = [
        Request("req-1", {**usual, "queue": 1.9, "unaccounted": 0.02}),
        Request("req-2", {**usual, "decode": 0.7}),
        Request("req-3", {"e2e": 1.1}),
    ]
    return waterfalls(requests, usual)
