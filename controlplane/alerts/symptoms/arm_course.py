"""One part of the values against the rest: label values that make up the tail, or nodes that are slower than others.

Guarantee: shares are judged by Wilson's bound (one-sided, 99 %), and only where both parts have enough values. Asks
telemetry at each end, so these symptoms are judged rarely.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from controlplane.alerts.symptoms.expressions import Cohort, Tail
from controlplane.alerts.symptoms.ratio_course import share_bound
from controlplane.alerts.symptoms.symptom_course import Course, Evidence, Scene
from controlplane.alerts.windows.history import instant
from controlplane.alerts.windows.window_table import Source
from controlplane.contract.histogram import axis_position
from controlplane.contract.knobs import QUANTIZATION, Quantization
from controlplane.contract.metrics import NODE, RUNNING, WINDOW_S
from controlplane.evidence.sketch import Sketch
from controlplane.telemetry import Question, Span

LOOK_BACK_S = 3600.0
"""A node that was not heard from before within this time is new."""
STEP_S = 60.0
ALIKE = 1.25
CLUMP = 4.0
"""Requests of one moment share their luck: so many count as one."""


@dataclass(frozen=True)
class Verdict:
    """Of one subject at one end. part of whole lie beyond the edge; is_judged: there was enough to say so."""

    part: int = 0
    whole: int = 0
    edge_s: float = 0.0
    is_judged: bool = False
    is_gated: bool = True

    @property
    def share(self) -> float:
        return self.part / self.whole if self.whole else 0.0


def sources_of(form: Tail | Cohort) -> list[Source]:
    if isinstance(form, Tail):
        return []
    found = [Source(RUNNING.short, STEP_S)] if form.arm == "young" else []
    return found + ([Source(form.matched, WINDOW_S)] if form.matched else [])


def look_back_s(form: Tail | Cohort) -> float:
    return LOOK_BACK_S if isinstance(form, Cohort) and form.arm == "young" else form.window_s


def tail_courses(tail: Tail, limit: float, resolve_at: float, scene: Scene) -> Iterator[Course]:
    verdicts = [_of_tail(tail, _sketches(scene, tail.metric, tail.label, end_s, tail.window_s)) for end_s in scene.ends]
    yield _course({}, verdicts, limit, resolve_at)


def cohort_courses(cohort: Cohort, limit: float, resolve_at: float, scene: Scene) -> Iterator[Course]:
    found: dict[str, dict[int, Verdict]] = {}
    for at, end_s in enumerate(scene.ends):
        by_node = _sketches(scene, cohort.metric, NODE.label, end_s, cohort.window_s)
        arm = _arm(cohort, scene, end_s) & set(by_node)
        others = _merged([sketch for node, sketch in by_node.items() if node not in arm])
        parts = {node: by_node[node] for node in arm}
        if cohort.by == "pool":
            parts = {"": _merged(list(parts.values()))} if arm else {}
        for name, sketch in parts.items():
            if _are_alike(cohort, scene, arm, at):
                found.setdefault(name, {})[at] = _of_cohort(cohort, sketch, others)
    for name, verdicts in sorted(found.items()):
        subject = {NODE.label: name} if name else {}
        yield _course(subject, [verdicts.get(at, Verdict()) for at in range(len(scene.ends))], limit, resolve_at)


def _course(subject: Mapping[str, str], verdicts: Sequence[Verdict], limit: float, resolve_at: float) -> Course:
    known = np.array([one.is_judged for one in verdicts])
    gated = np.array([one.is_gated for one in verdicts])
    share = np.array([one.share for one in verdicts])
    bound = np.array([share_bound(one.part, one.whole, CLUMP, is_lower=True) if one.whole else 0.0 for one in verdicts])
    breach = known & gated & (bound > limit)
    return Course(
        subject, share, breach, known & ~breach & ((share <= limit * resolve_at) | ~gated), _teller(verdicts, bound)
    )


def _teller(verdicts: Sequence[Verdict], bound: "np.ndarray[tuple[int], np.dtype[np.float64]]") -> "Tell":
    def tell(at: int) -> Evidence:
        one = verdicts[at]
        statement = f"the share is at least {bound[at]:.3g} with 99 % (Wilson), {CLUMP:g} requests counting as one"
        return {
            "beyond": one.part,
            "count": one.whole,
            "edge_s": round(one.edge_s, 6),
            "error_rate": {"statement": statement},
        }

    return tell


Tell = Callable[[int], Evidence]


def _of_tail(tail: Tail, by_value: Mapping[str, Sketch]) -> Verdict:
    whole = _merged(list(by_value.values()))
    if whole.count < tail.min_count:
        return Verdict()
    edge_s = whole.quantile(tail.q)
    own = _merged([sketch for value, sketch in by_value.items() if value in tail.values])
    position = axis_position(edge_s)
    is_small = own.count <= tail.most_of_all * whole.count
    return Verdict(own.above(position), whole.above(position), edge_s, whole.above(position) > 0, is_small)


def _of_cohort(cohort: Cohort, own: Sketch, others: Sketch) -> Verdict:
    if min(own.count, others.count) < cohort.min_count:
        return Verdict()
    edge_s = others.quantile(cohort.q)
    return Verdict(own.above(axis_position(edge_s)), own.count, edge_s, True)


def _arm(cohort: Cohort, scene: Scene, end_s: float) -> set[str]:
    if cohort.arm == "quantized":
        return {
            node
            for node, view in scene.enrolled.items()
            if view.effective is not None
            and view.effective.knobs.get(QUANTIZATION, Quantization.NONE) != Quantization.NONE
        }
    last = round(end_s // STEP_S)
    table = scene.tables.get(Source(RUNNING.short, STEP_S))
    seen = table.of(scene.pool, scene.nodes, last - round(LOOK_BACK_S / STEP_S), last)
    first = {node: np.flatnonzero(np.isfinite(values[:, 0])) for (node,), values in seen.items()}
    youngest = (LOOK_BACK_S - cohort.young_s) / STEP_S
    return {node for node, steps in first.items() if len(steps) and steps[0] >= youngest}


def _are_alike(cohort: Cohort, scene: Scene, arm: set[str], at: int) -> bool:
    if cohort.matched is None:
        return True
    table = scene.tables.get(Source(cohort.matched, WINDOW_S))
    series = table.of(scene.pool, scene.nodes, *scene.columns(WINDOW_S, cohort.window_s))
    levels: dict[bool, list[float]] = {True: [], False: []}
    for (node,), values in series.items():
        there = np.isfinite(values[:, 0]).astype(np.float64)
        windows = scene.sums(there, WINDOW_S, cohort.window_s)[at]
        if windows:
            levels[node in arm].append(scene.sums(values[:, 0], WINDOW_S, cohort.window_s)[at] / windows)
    if not levels[True] or not levels[False]:
        return False
    own, others = (float(np.mean(levels[which])) + 1e-9 for which in (True, False))
    return max(own, others) / min(own, others) <= ALIKE


def _sketches(scene: Scene, metric: str, label: str, end_s: float, window_s: float) -> dict[str, Sketch]:
    span = Span(instant(end_s - window_s), instant(end_s))
    found = scene.telemetry.histograms(Question(metric, span, (label,), scene.where))
    return {series.labels.get(label, ""): series.total for series in found}


def _merged(sketches: Sequence[Sketch]) -> Sketch:
    total = Sketch()
    for sketch in sketches:
        total.merge(sketch)
    return total
