"""How long a question takes: the service and Prometheus's histogram_quantile, on the same hour, in turn."""

import random
import time
from collections.abc import Callable
from functools import partial

from benchmarks.engine_measures.report import heading, note, progress, spread, table
from benchmarks.engine_measures.stats import Summary, paired_ratio, summarize
from benchmarks.telemetry_measures import prometheus_server
from benchmarks.telemetry_measures.loaded_hour import INTERVAL_S, LoadedHour
from benchmarks.telemetry_measures.session import Session, verdict
from benchmarks.telemetry_measures.timed_questions import Ours, Theirs

GOAL = 0.1
REPEATS, QUICK_REPEATS = 25, 5
FIVE_MIN_S = 300
Ask = Callable[[float, float], object]


def measure(session: Session) -> None:
    heading("Queries against histogram_quantile")
    hour = session.hour
    whole = hour.end_s - hour.start_s
    ours = Ours(hour)
    theirs = None if hour.rival is None else Theirs(hour)
    their: list[Ask] = []
    if theirs is not None:
        their = [theirs.quantile, partial(theirs.quantile, by="node"), partial(theirs.series, step_s=10)]
    questions: list[tuple[str, int, Ask]] = [
        (f"p99 of the fleet over {whole // 60} min", whole, ours.quantile),
        (f"p99 of each of {hour.nodes} nodes over 5 min", FIVE_MIN_S, partial(ours.quantile, by="node")),
        (f"p99 of the fleet over {whole // 60} min in steps of 10 s", whole, partial(ours.quantile, step="10s")),
    ]
    repeats = QUICK_REPEATS if session.settings.quick else REPEATS
    rows = []
    worst = 0.0
    for place, (name, span_s, our) in enumerate(questions):
        progress(f"queries: {name}")
        our_ms, their_ms = _in_turn(session, hour, span_s, our, their[place] if their else None, repeats)
        row = [name, spread(our_ms[0])]
        if their_ms is not None:
            ratio = paired_ratio(our_ms[1], their_ms[1])
            worst = max(worst, ratio.median)
            row += [
                spread(their_ms[0]),
                f"**{ratio.median:.3f}** ({ratio.low_quartile:.3f} to {ratio.high_quartile:.3f})",
            ]
        else:
            row += ["-", "-"]
        rows.append(row)
    rival = f"Prometheus {prometheus_server.version()}, ms" if hour.rival else "Prometheus (missing)"
    note(
        f"{hour.nodes} nodes, {hour.histograms:,} histograms in the service, loaded through the API in "
        f"{hour.loading_s:.0f} s and folded; Prometheus holds the asked metric only, as blocks of its own tool. Both "
        f"over HTTP on a kept connection, on one core each, {repeats} times in random order, each time another stretch "
        "(whole intervals earlier), after one unmeasured question each."
    )
    table(["", "Tailwright, ms", rival, "ratio"], rows)
    ours.close()
    if theirs is not None:
        theirs.close()
    if hour.rival is None:
        note(f"- Prometheus: not measured: {hour.rival_missing.splitlines()[0]}")
        return
    note(f"Largest ratio {worst:.3f}; goal {GOAL}: **{verdict(worst <= GOAL)}**.")


def _in_turn(
    session: Session, hour: LoadedHour, span_s: float, our: Ask, their: Ask | None, repeats: int
) -> tuple[tuple[Summary, list[float]], tuple[Summary, list[float]] | None]:
    """Milliseconds of each side, round by round."""
    order = random.Random(session.settings.seed)
    sides: dict[str, Ask] = {"ours": our} if their is None else {"ours": our, "theirs": their}
    taken: dict[str, list[float]] = {name: [] for name in sides}
    for number in range(repeats + 1):
        # Another end each time, so that no cache of whole answers helps; a span as long as the hour loses its end.
        end = hour.end_s - INTERVAL_S * number
        start = max(hour.start_s, end - span_s)
        for name in order.sample(list(sides), len(sides)):
            began = time.perf_counter()
            sides[name](start, end)
            if number:
                taken[name].append(1000 * (time.perf_counter() - began))
    theirs = taken.get("theirs")
    return (summarize(taken["ours"]), taken["ours"]), None if theirs is None else (summarize(theirs), theirs)
