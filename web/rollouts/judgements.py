"""A rollout's judgings for a reader: the canary's, then each wave's; what each waits for, and how its intervals closed.

Pure.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from controlplane.contract.bodies.rollouts import Rollout, RolloutPhase
from controlplane.contract.on_call.metric_text import metric_name
from web.drawing.closing_band import ClosingBand, Known, closing_band
from web.drawing.units import count_words
from web.frame.format import seconds
from web.frame.states import Kind, kind_of
from web.rollouts.evidence_rows import FINDINGS, Evidence, Row, Rows, rows_of

WAVES = "waves"
GOOD = ("faster", "not_worse")


@dataclass(frozen=True)
class Judgement:
    """`verdict`: the contract's word, None: not decided. `word`: how it went, of a kind, and `because` in a sentence
    where there is more to it. `over`: nothing more is judged of it. `waits`: what stands between the evidence and a
    verdict, or did when it ended. `closing`: drawings by what they are called."""

    title: str
    key: str
    nodes: list[str]
    verdict: str | None
    kind: Kind
    word: str
    because: str
    over: bool
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
    waves = evidence.get(WAVES, [])
    found = [("Canary", "canary", rollout.canary_nodes, evidence)] if "metrics" in evidence else []
    found += [(f"Wave {place}", f"wave-{place}", one.get("nodes", []), one) for place, one in enumerate(waves, 1)]
    ended, promoted = rollout.ended_at is not None, rollout.phase is RolloutPhase.PROMOTED
    return [
        _judgement(*one, over=ended or place < len(found), went_on=promoted or place < len(found))
        for place, one in enumerate(found, 1)
    ]


def _judgement(title: str, key: str, nodes: list[str], evidence: Evidence, *, over: bool, went_on: bool) -> Judgement:
    since = moment_of(evidence, "judged_from")
    kind, word, because = _how(evidence, over=over, went_on=went_on)
    return Judgement(
        title=title,
        key=key,
        nodes=nodes,
        verdict=evidence.get("verdict"),
        kind=kind,
        word=word,
        because=because,
        over=over,
        since=since,
        until=moment_of(evidence, "judged_until"),
        judged_s=float(evidence.get("judged_s", 0.0)),
        needed_s=evidence.get("needed_s"),
        alone=evidence.get("control") == "before",
        waits=[] if evidence.get("verdict") == "worse" or because else list(_waits(evidence)),
        rows=_over(rows_of(evidence)) if over else rows_of(evidence),
        closing=_closing(evidence, since),
    )


def _how(evidence: Evidence, *, over: bool, went_on: bool) -> tuple[Kind, str, str]:
    """The verdict in words. Without one: what was looked at all the same, where the rollout went on."""
    verdict = evidence.get("verdict")
    if verdict is not None:
        return kind_of(verdict) or Kind.UNKNOWN, verdict.replace("_", " "), ""
    if not over:
        return Kind.UNKNOWN, "not decided yet", ""
    if evidence.get("compares") is False:
        because = (
            "Nothing was there to compare latencies with: losses and limits were watched, and none spoke against it."
        )
        return (Kind.UNKNOWN, "watched", because) if went_on else (Kind.WARN, "inconclusive", "")
    if went_on:
        because = "It was watched for its time: no harm showed, and too little was seen for a verdict of its own."
        return Kind.UNKNOWN, "no harm shown", because
    return Kind.WARN, "inconclusive", ""


def moment_of(evidence: Evidence, name: str) -> datetime | None:
    said = evidence.get(name)
    return datetime.fromisoformat(said) if isinstance(said, str) else None


def _over(rows: Rows) -> Rows:
    """What is still to be decided will not be."""

    def told(row: Row) -> Row:
        return replace(row, word="not decided") if row.word == FINDINGS["undecided"][1] else row

    return replace(rows, judged=list(map(told, rows.judged)), strata=list(map(told, rows.strata)))


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
