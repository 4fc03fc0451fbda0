"""Advice on a pool, from its figures. Pure.

Guarantee: a pool that is idle, or was measured by too few requests, is told so and given no technique.
"""

from controlplane.advice.binding_limits import binds, is_idle
from controlplane.advice.capacity_worksheet import worksheet
from controlplane.advice.mix_advice import MeasuredTraffic, mix_advice
from controlplane.advice.pool_figures import FEWEST_REQUESTS, PoolFigures
from controlplane.advice.techniques import techniques
from controlplane.contract.duration_text import duration_text
from controlplane.contract.planning.advice import Advice, AdviceState


def advice_of(figures: PoolFigures, peak: float, measured: MeasuredTraffic | None = None) -> Advice:
    """peak: so many times the busiest step are looked at. measured: what its last promoted study was measured on."""
    state, because = _state(figures)
    return Advice(
        pool=figures.pool,
        start=figures.start,
        end=figures.end,
        state=state,
        because=because,
        binds=binds(figures),
        worksheet=worksheet(figures, peak),
        mix=None if measured is None else mix_advice(measured, figures.mix),
        techniques=techniques(figures) if state is AdviceState.ADVISED else [],
    )


def _state(figures: PoolFigures) -> tuple[AdviceState, str]:
    measured = f"{figures.requests:,} requests in {duration_text(figures.measured_s)}"
    if is_idle(figures):
        return AdviceState.IDLE, f"The pool is idle ({measured}): nothing binds it, so there is nothing to advise."
    if figures.requests < FEWEST_REQUESTS:
        wanted = f"at least {FEWEST_REQUESTS} are wanted; take a longer time"
        return AdviceState.TOO_LITTLE, f"Only {measured}: too little to advise by; {wanted}."
    return AdviceState.ADVISED, f"By {measured}."
