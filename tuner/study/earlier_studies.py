"""What earlier studies found, as first points of the next. Pure.

Guarantee: only studies of an engine with the same model, version, formats and limits, of the same objective and of
traffic alike are remembered; what they found is measured like anything else, and nothing is taken from it unmeasured.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from controlplane.contract.bodies.studies import Study, StudyVerdict
from controlplane.contract.knobs import canonical_json
from controlplane.contract.planning.trial_leases import Remembered

MOST = 2
"""So many are measured first: each takes a trial."""
ALIKE = 1.5
"""Traffic is alike when no figure of the one is more than so many times that of the other."""
ALIKE_SHARE = 0.2
"""And when the shares of prefixes that repeat differ by no more than this."""

Fingerprint = dict[str, float]


def fingerprint(summary: Mapping[str, Any]) -> Fingerprint | None:
    """Of a slice, from what `capture.describe` says of it; None where that is not told."""
    told = summary.get("slice")
    if not isinstance(told, Mapping):
        return None
    try:
        lengths = {
            f"{kind} {q}": float(told[kind][q]) for kind in ("input_tokens", "output_tokens") for q in ("p50", "p95")
        }
        return lengths | {name: float(told[name]) for name in ("rate_per_s", "prefix_share")}
    except (KeyError, TypeError, ValueError):
        return None


def are_alike(one: Fingerprint, other: Fingerprint) -> bool:
    """Whether what is good for the one traffic may be good for the other."""
    shares = abs(one["prefix_share"] - other["prefix_share"])
    ratios = (max(one[name], 1e-3) / max(other[name], 1e-3) for name in one if name != "prefix_share")
    return shares <= ALIKE_SHARE and all(1 / ALIKE <= ratio <= ALIKE for ratio in ratios)


def remembered(
    studies: Sequence[Study], own: Study, engine: Mapping[str, Any], summary: Mapping[str, Any]
) -> list[Remembered]:
    """The newest winners that were better than their default, each once. `studies`: those that have finished; `engine`,
    `summary`: of this study's trial node and of the slice it replays.
    """
    wanted = fingerprint(summary)
    found: dict[str, Remembered] = {}
    for study in sorted(studies, key=lambda study: -study.id):
        result = study.result
        if study.id == own.id or result is None or result.winner is None or result.verdict is not StudyVerdict.BETTER:
            continue
        its = fingerprint(study.workload_summary)
        same = study.workload_summary.get("engine") == engine and study.spec.objective == own.spec.objective
        if not same or wanted is None or its is None or not are_alike(wanted, its):
            continue
        found.setdefault(canonical_json(result.winner), Remembered(study_id=study.id, knobs=result.winner))
    return list(found.values())[:MOST]
