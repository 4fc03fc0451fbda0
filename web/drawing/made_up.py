"""What the gallery draws of everything but lines over time: made-up values, always the same ones."""

from datetime import UTC, datetime, timedelta
from math import exp, sin
from typing import Any

from controlplane.contract.bodies.telemetry import HeatmapAnswer, HeatmapColumn, HeatmapSeries
from controlplane.contract.step_limits import StepLimit
from web.drawing.closing_band import Known, closing_band
from web.drawing.counted_bars import Counted, counted_bars
from web.drawing.fronts.pareto_chart import Placed, Side, pareto_chart
from web.drawing.heat_map import heat_map
from web.drawing.line_chart import Line, Mark
from web.drawing.node_cells import Node, node_cells
from web.drawing.parallel_trials import Configuration, parallel_trials
from web.drawing.ribbon import ribbon
from web.drawing.sparkline import Baseline, sparkline
from web.drawing.stacks import stacked_bars
from web.drawing.trial_history import Tried, trial_history
from web.drawing.verdict_bar import Judged, verdict_bar
from web.drawing.waterfall import Request, waterfalls
from web.frame.format import seconds

STEP_S, SPAN_S = 10, 900
TRIALS = [
    Tried(0, "default", 0.32, True),
    *(Tried(place, "search", value, value < 0.6) for place, value in enumerate((0.41, 0.9, 0.27, 0.25, 2.4, 0.26), 1)),
    Tried(7, "search", None, False),
]


def drawings() -> dict[str, Any]:
    """The context of components/gallery_drawings.html."""
    return {
        "sparklines": _sparklines(),
        "waterfalls": _waterfalls(),
        "heat_maps": _heat_maps(),
        "ribbons": _ribbons(),
        "stacks": _stacks(),
        "verdicts": _verdicts(),
        "closing": _closing(),
        "trials": trial_history(TRIALS, "TTFT p95"),
        "parallel": parallel_trials(_configurations(), "TTFT p95"),
        "pareto": pareto_chart(_placed(), Side("TTFT p95", seconds), Side("time per good request", seconds)),
        "counted": counted_bars(Counted(12, 400), Counted(20, 1600), 0.05),
        "nodes": {"Nodes by pool": node_cells(_nodes(300)), "Nobody": node_cells([])},
    }


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


def _heat_maps() -> dict[str, Any]:
    """Requests of two kinds, the slower of which grow slower by a step; and nothing."""
    start = datetime.fromtimestamp(0, UTC)
    edges = [0.005 * 2 ** (row / 8) for row in range(81)]

    def counts(time: int) -> list[int]:
        slow = -0.5 if time < 600 else 1.8
        near = [exp(-((row / 8 - 4.5) ** 2)) * 60 + exp(-((row / 8 - 6 - slow) ** 2) * 3) * 5 for row in range(80)]
        return [int(of + sin(time + row) / 2) for row, of in enumerate(near)]

    columns = [
        HeatmapColumn(time=start + timedelta(seconds=time), count=sum(counts(time)), counts=counts(time))
        for time in range(0, SPAN_S, STEP_S)
        if not 300 <= time < 340
    ]

    def answer(*series: HeatmapSeries) -> HeatmapAnswer:
        end = start + timedelta(seconds=SPAN_S)
        about = {"metric": "ttft", "unit": "s", "start": start, "end": end, "step_s": STEP_S, "rows_per_doubling": 8}
        return HeatmapAnswer.model_validate({**about, "relative_error": 0.011, "edges": edges, "series": series})

    whole = HeatmapSeries(labels={}, count=sum(column.count for column in columns), columns=columns)
    quantiles = [
        Line("p50", [(float(time), 0.115) for time in range(0, SPAN_S, STEP_S)]),
        Line("p99", [(float(time), 0.4 if time < 600 else 1.3) for time in range(0, SPAN_S, STEP_S)]),
    ]
    marks = [
        Mark(330, "engine", "engine restarted", "gpu-1 was away for 40 s"),
        Mark(600, "revision", "revision 7 adopted", "max_num_seqs 64, was 16"),
    ]
    return {"Time to first token": heat_map(answer(whole), quantiles, marks), "No requests": heat_map(answer())}


def _ribbons() -> dict[str, Any]:
    """Every limit, the memory's growing; a node that idles; and nothing told."""
    weights = {limit: place + 1.0 for place, limit in enumerate(StepLimit)}
    times = [float(time) for time in range(0, SPAN_S, STEP_S) if not 300 <= time < 340]
    steps = {
        limit: [(time, weight * (1 + time / 100 if limit is StepLimit.KV_MEMORY else 1)) for time in times]
        for limit, weight in weights.items()
    }
    idle = {StepLimit.NO_WORK: [(time, 10.0) for time in times]}
    return {
        "every limit": ribbon(steps, 0, SPAN_S, STEP_S),
        "idle": ribbon(idle, 0, SPAN_S, STEP_S),
        "nothing told": ribbon({}, 0, SPAN_S, STEP_S),
    }


def _stacks() -> Any:
    before = {"receive": 0.01, "tokenize": 0.02, "queue": 0.1, "prefill": 0.3, "decode": 0.9, "send": 0.05}
    return stacked_bars([Request("before", before), Request("during", {**before, "queue": 0.5, "decode": 1.0})])


def _verdicts() -> dict[str, Any]:
    return {
        "Worse": verdict_bar(Judged(1.22, 1.12, 1.33, 1.05, "worse"), "ttft p99"),
        "Better": verdict_bar(Judged(0.64, 0.55, 0.74, 1.05, "better"), "ttft p99"),
        "Not worse": verdict_bar(Judged(1.0, 0.97, 1.03, 1.05, "not_worse"), "tpot p95"),
        "Inconclusive": verdict_bar(Judged(1.1, 0.0, 2.5, 1.05, "inconclusive"), "ttft p99"),
    }


def _closing() -> dict[str, Any]:
    known = [Known(5.0 * at, 1.02, 1.02 - 0.5 / at**0.5, 1.02 + 0.6 / at**0.5) for at in range(1, 60)]
    return {"An interval that closes": closing_band(known, 1.1), "Nothing known": closing_band([], 1.1)}


def _configurations() -> list[Configuration]:
    tokens, drafts, formats = (512, 64, 2048, 1024, 1024, 256, 768, 96), (0, 2, 4, 2, 3, 8, 2, 6), ["none", "int8"]
    return [
        Configuration(
            tried,
            {
                "max_num_batched_tokens": tokens[at],
                "prefill_chunk_size": 0 if at < 3 else 128,
                "num_speculative_tokens": drafts[at],
                "quantization": formats[at in (3, 4, 5)],
            },
            won=at == 4,
        )
        for at, tried in enumerate(TRIALS)
    ]


def _placed() -> list[Placed]:
    """A front of three, one beside it, one beaten, one that breaks a limit, one that was not measured."""
    front = {1: (0.18, 0.12), 2: (0.25, 0.07), 3: (0.4, 0.05)}
    return [
        Placed(0, "default", (0.32, 0.11), True),
        *(
            Placed(number, "search", (x, y), True, True, ((x / 1.08, x * 1.08), (y / 1.1, y * 1.1)))
            for number, (x, y) in front.items()
        ),
        Placed(4, "search", (0.5, 0.09), True),
        Placed(5, "search", (0.15, 0.06), False),
        Placed(6, "search", (None, None), False),
    ]


def _nodes(count: int) -> list[Node]:
    """Of two pools; most are well, and some have told nothing."""
    words = {7: "unhealthy", 11: "degraded", 13: "stale", 17: "unknown"}
    return [
        Node(
            f"gpu-{at}",
            "pool chat" if at % 3 else "pool code",
            None if at % 41 == 40 else 0.08 * exp((at * 37 % 101) / 30),
            next((word for every, word in words.items() if at % (5 * every) == 1), "healthy"),
        )
        for at in range(count)
    ]
