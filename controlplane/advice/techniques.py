"""The checklist of techniques: what each could touch of a pool's latency at most, by the pool's own figures. Pure.

Guarantee: a bound is arithmetic on named figures, never an effect size; where one of them is missing there is no bound,
and what would bring it is said. Symbols, as in docs/advice.md: Q, P and D are the shares of all requests' end-to-end
time that they queued, were prefilled and decoded; each bound lies within 0 and 1.
"""

from collections.abc import Callable

from controlplane.advice.capacity_techniques import kv_memory, max_num_seqs, replica
from controlplane.advice.compute_techniques import prefix_caching, quantization, speculation, step_budget
from controlplane.advice.pool_figures import PoolFigures
from controlplane.advice.technique_draft import TechniqueDraft
from controlplane.contract.knobs import ChangeClass
from controlplane.contract.planning.advice import Fits, Technique, TechniqueAdvice

LEAST = 0.01
"""What touches less of the end-to-end time than this is nothing to gain."""


def techniques(figures: PoolFigures) -> list[TechniqueAdvice]:
    """Those that apply first, those of which a figure is missing next; within each by what they touch, most first."""
    order = (Fits.APPLIES, Fits.UNKNOWN, Fits.NOT_HERE, Fits.NOTHING)
    found = [_advice(one, title, of(figures)) for one, (title, of) in CHECKLIST.items()]
    return sorted(found, key=lambda one: (order.index(one.fits), -(one.touches or 0.0)))


def _advice(technique: Technique, title: str, draft: TechniqueDraft) -> TechniqueAdvice:
    touches = None if draft.touches is None else min(max(draft.touches, 0.0), 1.0)
    if touches is None:
        fits = Fits.UNKNOWN
    elif touches < LEAST:
        fits = Fits.NOTHING
    else:
        fits = Fits.NOT_HERE if draft.cannot else Fits.APPLIES
    offered = fits in (Fits.APPLIES, Fits.UNKNOWN) and not draft.cannot
    place = draft.place
    return TechniqueAdvice(
        technique=technique,
        title=title,
        fits=fits,
        touches=touches,
        formula=draft.formula,
        figures=draft.figures,
        says=" ".join(draft.says),
        knob=draft.knob,
        change_class=ChangeClass.RESTART if place is None and draft.knob else place.change_class if place else None,
        most=None if place is None else place.most,
        missing=draft.missing,
        study=draft.study if offered else "",
        forecast=draft.forecast if offered else "",
        proof=draft.proof,
    )


CHECKLIST: dict[Technique, tuple[str, Callable[[PoolFigures], TechniqueDraft]]] = {
    Technique.REPLICA: ("Another replica", replica),
    Technique.MAX_NUM_SEQS: ("More requests at once", max_num_seqs),
    Technique.KV_MEMORY: ("More KV memory", kv_memory),
    Technique.STEP_BUDGET: ("Chunked prefill and step budget", step_budget),
    Technique.PREFIX_CACHING: ("Prefix caching", prefix_caching),
    Technique.SPECULATION: ("Speculative decoding", speculation),
    Technique.QUANTIZATION: ("Quantization", quantization),
}
