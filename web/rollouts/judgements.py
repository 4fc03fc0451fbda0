"""A rollout's judgings for a reader: the canary's, then each wave's; what each waits for, and how its intervals closed.

Pure.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from controlplane.contract.bodies.rollouts import Rollout
from web.drawing.closing_band import ClosingBand, Known, closing_band
from web.drawing.units import count_words
from web.frame.format import metric_name, seconds
from web.rollouts.evidence_rows import Evidence, Rows, rows_of

WAVES = "waves"
GOOD = ("faster", "not_worse")


@dataclass(frozen=True)
class Judgement:
    """`verdict`: the contract's word, None: not decided. `waits`: what stands between the evidence and a verdict, or
    did when it ended. `closing`: drawings by what they are called."""

    title: str
    key: str
    nodes: list[str]
    verdict: str | None
    since: datetime | None
    until: datetime | None
    judged_s: float
    needed_s: float | None
    alone: bool
    waits: list[str]
    rows: Rows
    closing: dict[str, ClosingBand]


def judgements(rollout: Rollout) -> list[Judgement]:
    """In order of time; none before anything was judged."""
    evidence = rollout.evidence
    found = [_judgement("Canary", "canary", rollout.canary_nodes, evidence)] if "metrics" in evidence else []
    for place, wave in enumerate(evidence.get(WAVES, []), 1):
        found.append(_judgement(f"Wave {place}", f"wave-{place}", wave.get("nodes", []), wave))
    return found


def _judgement(title: str, key: str, nodes: list[str], evidence: Evidence) -> Judgement:
    since = moment_of(evidence, "judged_from")
    return Judgement(
        title=title,
        key=key,
        nodes=nodes,
        verdict=evidence.get("verdict"),
        since=since,
        until=moment_of(evidence, "judged_until"),
        judged_s=float(evidence.get("judged_s", 0.0)),
        needed_s=evidence.get("needed_s"),
        alone=evidence.get("control") == "before",
        waits=[] if evidence.get("verdict") == "worse" else list(_waits(evidence)),
        rows=rows_of(evidence),
        closing=_closing(evidence, since),
    )


def moment_of(evidence: Evidence, name: str) -> datetime | None:
    said = evidence.get(name)
    return datetime.fromisoformat(said) if isinstance(said, str) else None


def _waits(evidence: Evidence) -> Iterator[str]:
    """Sentences without their stop."""
    yield from evidence.get("held_back") or []
    for metric, lines in (evidence.get("leaning_to_harm") or {}).items():
        yield f"{metric_name(metric)} leans to harm: {', '.join(lines)}"
    metrics: Mapping[str, Any] = evidence.get("metrics") or {}
    for metric, told in metrics.items():
        lines = told.get("lines", {})
        missing = [name for name in told.get("shown", ()) if lines[name].get("finding") not in GOOD]
        if missing:
            yield f"{metric_name(metric)} is still to be shown not worse: {', '.join(missing)}"
        if told.get("finding") == "leaning_worse" and not lines:
            yield f"{metric_name(metric)} leans to harm"
        if "accuracy" in told:
            yield f"{metric_name(metric)}: {told['accuracy']['statement']}"
        if told.get("without_a_past"):
            count = count_words(told["without_a_past"])
            yield f"{count} of {metric_name(metric)} are of prompts without a past: not judged"
    if evidence.get("slow_start_fades_over_s"):
        yield f"a slow start after a restart is taken to fade over {seconds(evidence['slow_start_fades_over_s'])}"
    if evidence.get("compares") is False:
        yield "no latency is compared, for no past of these nodes is known: losses and limits alone are watched"


def _closing(evidence: Evidence, since: datetime | None) -> dict[str, ClosingBand]:
    """By metric how the interval of its first level closed; none of older evidence, which kept no history."""
    if since is None:
        return {}
    found: dict[str, ClosingBand] = {}
    for metric, told in (evidence.get("metrics") or {}).items():
        history = told.get("history")
        if not history:
            continue
        line = history["line"]
        known = [_known(moment, since) for moment in history["moments"] if moment["ratio"] is not None]
        bound = max(told["lines"][line].get("worse_beyond") or 1.0, 1.0)
        if known:
            found[f"{metric_name(metric)} {line}"] = closing_band(known, bound)
    return found


def _known(moment: Evidence, since: datetime) -> Known:
    low, high = moment["low"], moment["high"]
    return Known(since.timestamp() + moment["after_s"], moment["ratio"], low or 0.0, math.inf if high is None else high)
