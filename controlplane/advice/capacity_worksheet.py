"""What a pool carried and what a peak means: arithmetic on what was seen, no forecast. Pure.

Guarantee: peaks are of steps that were measured whole; what a figure takes for granted is said beside it.
"""

import math
from collections.abc import Callable, Sequence
from itertools import pairwise

from controlplane.advice.pool_figures import PoolFigures, Step
from controlplane.contract.duration_text import duration_text
from controlplane.contract.knobs import ChangeClass
from controlplane.contract.planning.advice import STEP_WORDS, AtPeak, Rate, Worksheet

MILLION = 1e6
HOUR_S = 3600.0


def worksheet(figures: PoolFigures, times: float) -> Worksheet:
    """times: so many times the busiest step are looked at."""
    hours = figures.node_time_s / HOUR_S
    out, span = figures.output_tokens, figures.measured_s
    return Worksheet(
        requests=figures.requests,
        measured_s=span,
        step_s=figures.step_s,
        requests_per_s=_rate(figures, figures.requests, lambda one: one.requests) or Rate(mean=0.0),
        prompt_tokens_per_s=_rate(figures, figures.prompt_tokens, lambda one: one.prompt_tokens),
        output_tokens_per_s=_rate(figures, out, lambda one: one.output_tokens),
        cached_share=figures.cached,
        nodes=figures.nodes,
        output_tokens_per_node_s=out / figures.node_time_s if out is not None and figures.node_time_s else None,
        node_hours=hours,
        node_hours_per_million=hours * MILLION / out if out else None,
        ttft_p95_s=figures.ttft_p95_s,
        ttft_p99_s=figures.ttft_p99_s,
        waiting_share=figures.waiting_share,
        cold_start_s=cold_start_s(figures),
        steepest_rise=_steepest_rise(figures),
        at_peak=_at_peak(figures, times),
    )


def cold_start_s(figures: PoolFigures) -> float | None:
    """The longest mean of the nodes' restarts, warm-up included; None where none was measured."""
    costs = [node.effective.costs.get(ChangeClass.RESTART) for node in figures.serving if node.effective]
    return max((cost.mean_s + cost.warm_up_s for cost in costs if cost is not None and cost.count), default=None)


def _rate(figures: PoolFigures, total: float | None, of: Callable[[Step], float | None]) -> Rate | None:
    if total is None or figures.measured_s <= 0:
        return None
    in_steps = [value for step in figures.steps if (value := of(step)) is not None]
    return Rate(mean=total / figures.measured_s, peak=max(in_steps) / figures.step_s if any(in_steps) else None)


def _busiest(figures: PoolFigures) -> Step | None:
    found = max(figures.steps, key=lambda one: one.requests, default=None)
    return found if found is not None and found.requests and found.nodes else None


def _steepest_rise(figures: PoolFigures) -> float | None:
    rises = [(after.requests - before.requests) / figures.step_s for before, after in pairwise(figures.steps)]
    return max((rise for rise in rises if rise > 0), default=None)


def _at_peak(figures: PoolFigures, times: float) -> AtPeak | None:
    busiest = _busiest(figures)
    if busiest is None:
        return None
    rate = times * busiest.requests / figures.step_s
    nodes = math.ceil(times * busiest.nodes)
    e2e_s = figures.e2e_s
    buffer = _buffer_nodes(figures, busiest, times)
    return AtPeak(
        times=times,
        requests_per_s=rate,
        prompt_tokens_per_s=_scaled(busiest.prompt_tokens, times, figures.step_s),
        output_tokens_per_s=_scaled(busiest.output_tokens, times, figures.step_s),
        nodes=nodes,
        node_hours_a_day=24.0 * nodes,
        in_flight=None if e2e_s is None else rate * e2e_s,
        buffer_nodes=buffer,
        assumes=_assumes(figures, busiest, e2e_s, buffer),
    )


def _scaled(tokens: float | None, times: float, step_s: float) -> float | None:
    return None if tokens is None else times * tokens / step_s


def _buffer_nodes(figures: PoolFigures, busiest: Step, times: float) -> int | None:
    """What the steepest rise, so many times as steep, adds while a node starts, in nodes as loaded as the busiest."""
    start_s, rise = cold_start_s(figures), _steepest_rise(figures)
    if start_s is None:
        return None
    of_a_node = busiest.requests / busiest.nodes
    grown = times * (rise or 0.0) * start_s
    return math.ceil(grown / of_a_node)


def _assumes(figures: PoolFigures, busiest: Step, e2e_s: float | None, buffer: int | None) -> Sequence[str]:
    width = STEP_WORDS.get(figures.step_s, duration_text(figures.step_s))
    found = [
        "lengths of prompts and answers, and the share of prompts found in the cache, stay as they were",
        f"a node carries what each of {busiest.nodes} did in the busiest {width}; whether it carries more was not seen",
        "a node hour is an hour of one serving node, however many GPUs it has",
    ]
    if e2e_s is not None:
        found.append(f"end to end stays at its mean of {duration_text(e2e_s)}")
    if buffer is not None:
        found.append(
            f"load rises as steeply as it did from one {width} to the next, and a start takes as long as before"
        )
    return found
