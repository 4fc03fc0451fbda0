"""One amount over another: by Wilson's bound where requests or tokens are counted, plainly where seconds are added up.

Guarantee: of a share only its bound decides (one-sided, 99 %), with what comes in clumps counted as one; too little to
divide by decides nothing, so a quiet pool does not flap.
"""

from collections.abc import Iterator, Mapping
from functools import partial

import numpy as np

from controlplane.alerts.symptoms.expressions import Amount, Gate, Ratio
from controlplane.alerts.symptoms.symptom_course import Course, Evidence, Flags, Scene, beyond
from controlplane.alerts.windows.window_table import Source, Values
from controlplane.contract.metrics import BY_SHORT, NODE, WINDOW_S, MetricKind
from controlplane.evidence.binomial import Z_99, tail_bound, wilson_upper
from controlplane.evidence.sketch import Sketch

Amounts = Mapping[str, Values]
"""Subject (a node's name, "" for the pool) to sums at each end."""


def sources_of(ratio: Ratio) -> list[Source]:
    return list({source: None for amount in _amounts(ratio) for source in [_source(ratio, amount)]})


def courses(ratio: Ratio, limit: float, resolve_at: float, scene: Scene) -> Iterator[Course]:
    """One for each node, or one for the pool."""
    over, under = (_sums(ratio, amount, scene) for amount in (ratio.over, ratio.under))
    gates = [(gate, _sums(ratio, gate.over, scene), _sums(ratio, gate.under, scene)) for gate in ratio.gates]
    nothing = np.zeros(len(scene.ends))
    for name in sorted(under):
        opened = _all_open([(gate, a.get(name, nothing), b.get(name, nothing)) for gate, a, b in gates], len(nothing))
        yield _course(ratio, limit, resolve_at, scene, name, over.get(name, nothing), under[name], opened)


def _course(
    ratio: Ratio, limit: float, resolve_at: float, scene: Scene, name: str, over: Values, under: Values, opened: Flags
) -> Course:
    known = under >= ratio.min_under
    value = over / np.maximum(under, 1e-9)
    wrong = known & opened & beyond(ratio, value, limit) & (over >= ratio.min_over)
    bound = value.copy()
    if ratio.is_share:
        for at in np.flatnonzero(wrong):
            bound[at] = share_bound(over[at], under[at], ratio.clump, is_lower=ratio.above is not None)
    breach = wrong & beyond(ratio, bound, limit)
    calm = known & ~breach & (~beyond(ratio, value, limit * resolve_at) | ~opened)
    subject = {NODE.label: name} if ratio.by == "node" else {}
    tell = partial(_evidence, ratio, limit, scene, name, over, under, bound)
    return Course(subject, value, breach, calm, tell)


def share_bound(part: float, whole: float, clump: float, *, is_lower: bool) -> float:
    """The bound of a share on the side of its limit; a part larger than its whole counts as all of it."""
    count, hits = whole / clump, min(part, whole) / clump
    return 1.0 - wilson_upper(count - hits, count, Z_99) if is_lower else wilson_upper(hits, count, Z_99)


def _all_open(gates: list[tuple[Gate, Values, Values]], ends: int) -> Flags:
    opened = np.ones(ends, dtype=bool)
    for gate, over, under in gates:
        opened &= (under > 0.0) & beyond(gate, over / np.maximum(under, 1e-9), gate.limit)
    return opened


def _amounts(ratio: Ratio) -> list[Amount]:
    return [ratio.over, ratio.under, *(amount for gate in ratio.gates for amount in (gate.over, gate.under))]


def _source(ratio: Ratio, amount: Amount) -> Source:
    """Amounts of one metric share a table, told apart by all labels that any of them filters."""
    labels = {label for other in _amounts(ratio) if other.metric == amount.metric for label in other.where}
    is_histogram = BY_SHORT[amount.metric].kind is MetricKind.HISTOGRAM
    return Source(amount.metric, WINDOW_S, tuple(sorted(labels)), reduced=_seconds if is_histogram else None)


def _seconds(sketch: Sketch) -> tuple[float]:
    return (sketch.total,)


def _sums(ratio: Ratio, amount: Amount, scene: Scene) -> Amounts:
    found: dict[str, Values] = {}
    for key, values in _series(ratio, amount, scene).items():
        labels = dict(zip(_source(ratio, amount).by, key[1:], strict=True))
        if all(labels[label] in wanted for label, wanted in amount.where.items()):
            name = key[0] if ratio.by == "node" else ""
            sums = scene.sums(values[:, 0], WINDOW_S, ratio.window_s)
            found[name] = found[name] + sums if name in found else sums
    return found


def _series(ratio: Ratio, amount: Amount, scene: Scene) -> dict[tuple[str, ...], Values]:
    return scene.tables.get(_source(ratio, amount)).of(
        scene.pool, scene.nodes, *scene.columns(WINDOW_S, ratio.window_s)
    )


def _evidence(
    ratio: Ratio, limit: float, scene: Scene, name: str, over: Values, under: Values, bound: Values, at: int
) -> Evidence:
    told: Evidence = {ratio.over.metric: round(float(over[at]), 3), "of": round(float(under[at]), 3)}
    if ratio.over.where:
        told["by"] = _by_label(ratio, scene, name, at)
    if not ratio.is_share:
        return {**told, "error_rate": {"statement": "added up over all requests: no chance involved"}}
    count, hits = max(round(under[at] / ratio.clump), 1), round(min(over[at], under[at]) / ratio.clump)
    hits = min(hits, count)
    lower = ratio.above is not None
    chance = tail_bound(hits, count, limit) if lower else tail_bound(count - hits, count, 1.0 - limit)
    return {
        **told,
        "bound": round(float(bound[at]), 4),
        "error_rate": {
            "chance_at_most": chance,
            "statement": (
                f"the share is {'at least' if lower else 'at most'} {bound[at]:.3g} with 99 % (Wilson); were it at the "
                f"limit, by luck alone so many would come with a probability of at most {chance:.2g}"
            ),
        },
    }


def _by_label(ratio: Ratio, scene: Scene, name: str, at: int) -> dict[str, float]:
    """What is counted, by the first label that it is filtered by."""
    place = _source(ratio, ratio.over).by.index(next(iter(ratio.over.where))) + 1
    found: dict[str, float] = {}
    for key, values in _series(ratio, ratio.over, scene).items():
        if name in ("", key[0]):
            sums = scene.sums(values[:, 0], WINDOW_S, ratio.window_s)
            found[key[place]] = found.get(key[place], 0.0) + round(float(sums[at]), 3)
    return {value: count for value, count in sorted(found.items()) if count}
