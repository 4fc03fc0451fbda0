"""A judge's evidence as others ask for it (pure): pass, fail, inconclusive, and what that rests on."""

import math
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from controlplane.contract.bodies.rollouts import ENDED, Rollout, RolloutPhase, Verdict
from controlplane.contract.changes.verdicts import ArmCounts, MetricVerdict, Outcome, StratumCounts, VerdictAnswer

GOOD = frozenset({Verdict.BETTER, Verdict.NOT_WORSE})
BY_COUNTS = "counts"


def outcome_of(verdict: Verdict | None) -> Outcome:
    """What a verdict means to who runs the canary. One that nobody has judged has shown nothing."""
    if verdict in GOOD:
        return Outcome.PASS
    return Outcome.FAIL if verdict is Verdict.WORSE else Outcome.INCONCLUSIVE


def of_rollout(rollout: Rollout) -> VerdictAnswer:
    """A rollout of ours, by its canary, or by the wave that turned out to be worse.

    It passes while it goes on and when it is promoted: one that is taken back after a good canary has not passed.
    """
    outcome = outcome_of(rollout.verdict)
    goes_back = rollout.phase is RolloutPhase.ROLLING_BACK
    ended_otherwise = rollout.phase in ENDED and rollout.phase is not RolloutPhase.PROMOTED
    if outcome is Outcome.PASS and (goes_back or ended_otherwise):
        outcome = Outcome.INCONCLUSIVE
    if rollout.phase is RolloutPhase.FAILED:
        outcome = Outcome.FAIL
    waves = rollout.evidence.get("waves", [])
    evidence = waves[-1] if waves and rollout.verdict is Verdict.WORSE else rollout.evidence
    return answer(
        outcome,
        evidence,
        [f"rollout {rollout.id} is {rollout.phase.value}: {rollout.message}", *reasons(evidence)],
        final=rollout.phase in ENDED,
    )


def answer(outcome: Outcome, evidence: Mapping[str, Any], says: list[str], *, final: bool) -> VerdictAnswer:
    """The evidence of `Judge.evidence`, with `judged_from` and `judged_until` where it was kept with them."""
    metrics: dict[str, tuple[float, MetricVerdict]] = {}
    for name, account in evidence.get("metrics", {}).items():
        bound = evidence["log_bounds"]["worse"]
        metrics[name] = _by_lines(account) if "lines" in account else _by_counts(account, bound)
    told = max(metrics, key=lambda name: metrics[name][0], default=None)
    of_told = {} if told is None else metrics[told][1].model_dump(include=_TOLD)
    return VerdictAnswer(
        verdict=outcome,
        final=final,
        says=says,
        metric=told,
        **of_told,
        metrics={name: found for name, (_, found) in metrics.items()},
        served=evidence.get("served", {}),
        limits=evidence.get("limits", []),
        alpha=evidence.get("alpha"),
        tolerance=evidence.get("tolerance"),
        judged_from=_moment(evidence.get("judged_from")),
        judged_until=_moment(evidence.get("judged_until")),
        judged_s=evidence.get("judged_s", 0.0),
        needed_s=evidence.get("needed_s"),
    )


_TOLD = {"line", "ratio", "interval", "counts", "strata"}


def reasons(evidence: Mapping[str, Any]) -> list[str]:
    """What harm was found, and what a good verdict waits for."""
    found = [f"{name}: worse" for name, one in evidence.get("metrics", {}).items() if one["finding"] == "worse"]
    if evidence.get("served", {}).get("finding") == "worse":
        found.append("served share: worse")
    for one in evidence.get("limits", []):
        if one["finding"] == "broken":
            found.append(f"limit: {one['metric']} p{100 * one['q']:g} at most {one['limit_s']:g} s is broken")
    leaning = evidence.get("leaning_to_harm", {})
    found += [f"{name} leans to harm: {', '.join(lines)}" for name, lines in leaning.items()]
    return found + list(evidence.get("held_back", []))


def _by_lines(account: Mapping[str, Any]) -> tuple[float, MetricVerdict]:
    """Of the lines that tell a ratio, the one with the most of the evidence that *worse* takes."""
    lines: dict[str, Any] = {name: line for name, line in account["lines"].items() if line["worse_beyond"] is not None}

    def harm(name: str) -> float:
        return float(lines[name]["log_e"]["worse"]) + math.log(lines[name]["alpha"])

    if not lines:
        return -math.inf, _metric(account, account["by"], "", None, None)
    told = max(lines, key=harm)
    line = lines[told]
    return harm(told), _metric(account, account["by"], told, line["ratio"], line["interval"])


def _by_counts(account: Mapping[str, Any], bound: float) -> tuple[float, MetricVerdict]:
    """bound: the log of the evidence that *worse* takes."""
    levels = [level for level in account["exceedances"] if "worse" in level["log_e"]]  # At others nothing is harm.
    told = max(levels, key=lambda level: level["log_e"]["worse"])
    line = f"p{100 * told['q']:g}"
    return float(told["log_e"]["worse"]) - bound, _metric(account, BY_COUNTS, line, told.get("ratio"), None)


def _metric(
    account: Mapping[str, Any], by: str, line: str, ratio: float | None, interval: list[float | None] | None
) -> MetricVerdict:
    strata = account.get("strata", {})
    return MetricVerdict(
        finding=account["finding"],
        by=by,
        line=line,
        ratio=ratio,
        interval=interval,
        counts=ArmCounts(**account["judged"]),
        strata=[StratumCounts(name=name, control=a, canary=b) for name, (a, b) in strata.items()],
    )


def _moment(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)
