"""A regression rule on one pool: from windows and the detector to findings, in the order of event time."""

from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

from controlplane.alerts.conditions.finding import Finding, Reading
from controlplane.alerts.conditions.node_apart import node_finding
from controlplane.alerts.conditions.watched_stages import MINOR
from controlplane.alerts.regressions.baseline import FLEET, Baseline, threshold_s
from controlplane.alerts.regressions.covered import is_covered
from controlplane.alerts.regressions.detector import Detector, Key
from controlplane.alerts.regressions.look_ahead import LookAhead
from controlplane.alerts.windows.history import History, Window, instant, merged
from controlplane.alerts.windows.pool_record import Move, PoolRecord
from controlplane.alerts.words import accuracy, percentile, reach_of_bucket, reach_of_node
from controlplane.contract.metrics import E2E, WINDOW_S
from controlplane.contract.on_call.metric_text import metric_name, metric_title

SHORT_BASELINE_S = 7200.0
FEW = 12
"""Windows for which looking ahead does not pay: as many as a tick of a service that keeps up has."""


def regression_labels(pool: str, metric: str) -> dict[str, str]:
    return {"kind": "regression", "pool": pool, "metric": metric}


def judge_regression(
    detector: Detector,
    history: History,
    pool: str,
    since_s: float,
    end_s: float,
    record: PoolRecord,
    firing: Callable[[dict[str, str]], bool],
) -> list[Finding]:
    """One finding per metric and window of [since_s, end_s); of one that is told already, no more than its reading.

    The end-to-end duration opens no alert of its own while it is told by those of its parts (see `covered`).
    """
    findings: list[Finding] = []
    windows = [window for window in history.windows if since_s <= window.start_s < end_s]
    ahead, seen_next = LookAhead(detector), 0
    told = {metric for metric in detector.condition.metrics if firing(regression_labels(pool, metric))}
    for place, window in enumerate(windows):
        if place < seen_next:
            at = instant(window.start_s + WINDOW_S)
            clear = (regression_labels(pool, metric) for metric in detector.condition.metrics)
            findings += [Finding(labels, at, Reading.CLEAR) for labels in clear]
            told.clear()
            continue
        detector.advance(window, history.windows, record)
        alarmed = [
            metric for metric in detector.condition.metrics if detector.alarmed(metric) or detector.apart(metric)
        ]
        for metric in detector.condition.metrics:
            labels = regression_labels(pool, metric)
            covered = metric == E2E.short and metric not in told and is_covered(detector, history, window)
            found = _finding(detector, history, window, labels, alarmed, covered, metric in told)
            findings.append(found)
            if found.reading is Reading.CLEAR:
                told.discard(metric)
            elif found.reading is Reading.BREACH and metric not in MINOR:  # Of those it may be held back yet.
                told.add(metric)
        if len(windows) - place > FEW:
            seen_next = ahead.pass_over(windows, place + 1, history.windows, record)
    if not windows:
        quiet = instant(end_s)
        findings = [
            Finding(regression_labels(pool, metric), quiet, Reading.HOLD) for metric in detector.condition.metrics
        ]
    return findings


def _finding(
    detector: Detector,
    history: History,
    window: Window,
    labels: dict[str, str],
    alarmed: Sequence[str],
    covered: bool,
    told: bool,
) -> Finding:
    at, metric = instant(window.start_s + WINDOW_S), labels["metric"]
    accepted = detector.accepted.get(metric)
    if accepted is not None and told:
        # What a judged rollout changed is what is normal now: the alert ends here, whatever comes after is news.
        moves = detector.learners[metric, FLEET].moves
        engine = next((move.engine for move in moves if move.rollout_id == accepted), "")
        if engine:
            why = f"the engine is {engine} now: what was normal of {metric_name(metric)} before says nothing of it"
            return Finding(labels, at, Reading.CLEAR, evidence={"resolved_because": why, "engine_version": engine})
        why = f"rollout {accepted} was judged and promoted: what it changed is the new normal of {metric_name(metric)}"
        return Finding(labels, at, Reading.CLEAR, evidence={"resolved_because": why, "rollout_id": accepted})
    keys, apart = detector.alarmed(metric), detector.apart(metric)
    if not keys and not apart:
        return Finding(labels, at, Reading.CLEAR)
    if covered:
        return Finding(labels, at, Reading.HOLD)
    if not keys:
        return Finding(labels, at, Reading.BREACH) if told else node_finding(detector, labels, at, alarmed)
    # The fleet's stream speaks before a prompt bucket's, that before a node's; the higher quantile before the lower.
    key = min(keys, key=lambda name: (name.bucket != FLEET, -name.q))
    baseline = detector.baseline(key)
    if told or baseline is None:
        return Finding(labels, at, Reading.BREACH)
    # A sender that does not tell prompt lengths has all its requests in one nameless bucket, which is the fleet.
    only = key.bucket if key.bucket not in (FLEET, "") else None
    onset_s = detector.stream(key).onset_s or window.start_s
    slow = [one for one in history.windows if onset_s <= one.start_s <= window.start_s]
    past = [one for one in history.windows if baseline.start_s <= one.start_s <= baseline.end_s]
    during, before = merged(slow, metric, only), merged(past, metric, only)
    before_s = before.quantile(key.q) if before.count else None
    span_s = baseline.end_s - baseline.start_s + WINDOW_S
    error = max(during.relative_error, before.relative_error)
    where = "" if only is None else f" for prompts of {only} tokens"
    return Finding(
        labels,
        at,
        Reading.BREACH,
        since=instant(onset_s),
        metric=metric,
        q=key.q,
        value=during.quantile(key.q) if during.count else None,
        threshold=before_s,
        before_s=before_s,
        relative_error=error,
        summary=f"{metric_title(metric)} {percentile(key.q)}{where} is above its baseline",
        evidence={
            "q": key.q,
            "prompt_bucket": only,
            "nodes_apart": apart,
            "also_slower": [name for name in alarmed if name != metric],
            "onset": instant(onset_s).isoformat(),
            "load_per_node": round(window.load, 3),
            "slow_above_s": {name: round(threshold_s(known), 6) for name, known in baseline.buckets.items()},
            "baseline": _baseline_evidence(baseline, detector, key, span_s),
            "streams": {
                str(name): {
                    "log_evidence": round(detector.stream(name).log_evidence, 2),
                    "phi": round(_phi(detector, name), 2),
                }
                for name in keys
            },
            "effect": _effect(detector, key),
            "error_rate": _error_rate(detector, key, span_s),
            **accuracy(error),
        },
    )


def _phi(detector: Detector, key: Key) -> float:
    baseline = detector.baseline(key)
    return 1.0 if baseline is None else baseline.phi[key.bucket]


def _baseline_evidence(baseline: Baseline, detector: Detector, key: Key, span_s: float) -> dict[str, Any]:
    """`moved`: rollouts that were accepted since, by how much the baseline was moved for each; null: begun anew."""
    moves = detector.learners[key.metric, key.bucket].moves
    return {
        "start": instant(baseline.start_s).isoformat(),
        "span_s": span_s,
        "count": baseline.count,
        "short": span_s < SHORT_BASELINE_S,
        "moved": [
            {**_because(move), "at": instant(move.at_s).isoformat(), "factor": move.factor(key.q)} for move in moves
        ],
    }


def _because(move: Move) -> dict[str, Any]:
    """What moved a baseline."""
    return {"engine_version": move.engine} if move.engine else {"rollout_id": move.rollout_id}


def _effect(detector: Detector, key: Key) -> dict[str, float] | None:
    """By what factor latencies have grown since the onset, with an interval; None where no course tells."""
    stream, course = detector.stream(key), detector.learners[key.metric, key.bucket].course
    found = None if course is None or stream.onset_s is None else course.effect(stream.line, stream.onset_s)
    if found is None:
        return None
    return {"factor": round(found.factor, 3), "low": round(found.low, 3), "high": round(found.high, 3), "level": 0.95}


def _error_rate(detector: Detector, key: Key, span_s: float) -> dict[str, Any]:
    every_s, streams = detector.condition.false_alarm_every_s, detector.stream_count(key)
    length = f"{span_s / 3600:.1f} h" if span_s >= 3600 else f"{span_s:.0f} s"
    honest = ": short, so its slow noise is partly guessed" if span_s < SHORT_BASELINE_S else ""
    course, threshold = detector.learners[key.metric, key.bucket].course, detector.log_threshold(key)
    replayed = None if course is None else course.replayed(detector.stream(key).line, threshold)
    return {
        "false_alarm_every_s": every_s,
        "streams": streams,
        "log_threshold": round(threshold, 2),
        "replayed": None if replayed is None else asdict(replayed),
        "statement": (
            f"designed for one false alarm in {every_s / 86400:.3g} days over {streams} streams, "
            f"as far as the baseline shows the usual noise (it is {length} long{honest})"
            f"{'' if replayed is None else replayed.in_words}"
        ),
    }


def moved_entry(pool: str, metric: str, move: Move) -> dict[str, Any]:
    """The ledger's entry for a baseline that has moved, or begun anew: a judged rollout was accepted, or another
    version of the engine has come."""
    if move.engine:
        message = f"the engine of pool {pool} is {move.engine}: the baseline of {metric} begins anew"
        told = {"pool": pool, "metric": metric, **_because(move), "factors": {}}
        return {"kind": "alert.baseline_moved", "message": message, **told}
    factors = {f"p{100 * q:g}": move.factor(q) for q in sorted(move.shifts or {})}
    how = ", ".join(f"{name} x{factor:g}" for name, factor in factors.items())
    happened = f"moved by what the verdict measured ({how})" if how else "begins anew, the verdict did not measure it"
    message = f"rollout {move.rollout_id} was judged and accepted: the baseline of {metric} in pool {pool} {happened}"
    told = {"pool": pool, "metric": metric, "rollout_id": move.rollout_id, "factors": factors}
    return {"kind": "alert.baseline_moved", "message": message, **told}


def reach(detector: Detector, metric: str, part: float) -> frozenset[str]:
    """The prompt buckets and nodes of a metric that have this part of an alarm's evidence, in words.

    Another metric in alarm is told by an alert of its own, or by those of its parts.
    """
    watch = detector.watches.get(metric)
    nodes = frozenset[str]()
    if watch is not None:
        wanted = part * watch.log_threshold(detector.pools)
        nodes = frozenset(
            reach_of_node(node) for node, one in watch.streams.items() if one.alarmed or one.log_gain >= wanted
        )
    return nodes | frozenset(
        reach_of_bucket(bucket)
        for (of, bucket), learner in detector.learners.items()
        if of == metric and bucket not in (FLEET, "")
        if any(
            stream.alarmed or stream.log_gain >= part * learner.log_threshold(detector.pools)
            for stream in learner.streams.values()
        )
    )
